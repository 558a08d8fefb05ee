package ring

import (
	"os"
	"strconv"
	"strings"
)

// processIdentity returns the start of this process in clock ticks since the boot, the inode of its namespace of process
// numbers, and the first 8 bytes of the identity of the boot, as spec/session.md has them; 0 for what cannot be read.
func processIdentity() (identity [3]uint64) {
	if stat, err := os.ReadFile("/proc/self/stat"); err == nil {
		// The name of the program may hold anything, and ends at the last parenthesis. Field 22 of the whole.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 19 {
			identity[0], _ = strconv.ParseUint(fields[19], 10, 64) // 0 where it is no number.
		}
	}
	if link, err := os.Readlink("/proc/self/ns/pid"); err == nil {
		link = strings.TrimSuffix(strings.TrimPrefix(link, "pid:["), "]")
		identity[1], _ = strconv.ParseUint(link, 10, 64) // As above.
	}
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		digits := strings.ReplaceAll(string(boot), "-", "")
		identity[2], _ = strconv.ParseUint(digits[:min(16, len(digits))], 16, 64) // As above.
	}
	return identity
}
