package ring

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// memoryKills returns the kernel's counts of processes killed for lack of memory, as spec/session.md has them at the start
// of a session: the inode of this process's control group, one more than the count of the group, and one more than the
// count of the machine; 0 for what cannot be read.
func memoryKills() (kills [3]uint64) {
	kills[0], kills[1] = groupKills()
	if count, ok := killsIn("/proc/vmstat"); ok {
		kills[2] = count + 1
	}
	return kills
}

// groupKills finds the control group of this process, of either version.
func groupKills() (inode, kills uint64) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0, 0
	}
	for _, line := range strings.Split(string(groups), "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) != 3 {
			continue
		}
		var tops []string
		file := "memory.events"
		switch controllers := strings.Split(fields[1], ","); {
		case fields[1] == "":
			tops = []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}
		case slices.Contains(controllers, "memory"):
			tops, file = []string{"/sys/fs/cgroup/memory"}, "memory.oom_control"
		}
		for _, top := range tops {
			// A path from outside of a container leads nowhere inside, where the group is the top.
			for _, dir := range []string{path.Join(top, fields[2]), top} {
				count, ok := killsIn(path.Join(dir, file))
				info, err := os.Stat(dir)
				if !ok || err != nil {
					continue
				}
				if stat, ok := info.Sys().(*syscall.Stat_t); ok {
					return stat.Ino, count + 1
				}
			}
		}
	}
	return 0, 0
}

// killsIn reads the line `oom_kill N` of a file.
func killsIn(file string) (count uint64, ok bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	for _, line := range strings.Split(string(text), "\n") {
		if rest, found := strings.CutPrefix(line, "oom_kill "); found {
			count, err := strconv.ParseUint(strings.TrimSpace(rest), 10, 64)
			return count, err == nil
		}
	}
	return 0, false
}
