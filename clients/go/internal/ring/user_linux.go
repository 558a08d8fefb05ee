package ring

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// workAs does some work in a thread that makes and opens files as a user. The thread ends with the work.
func workAs(user *User, work func()) error {
	done := make(chan error)
	go func() {
		// Without an unlock the runtime neither uses the thread for other goroutines nor starts threads from it.
		runtime.LockOSThread()
		// The calls do not say whether they did; that of a user that there is not returns the present one.
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSGID, uintptr(user.GID), 0, 0)
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(user.UID), 0, 0)
		now, _, _ := syscall.RawSyscall(syscall.SYS_SETFSUID, ^uintptr(0), 0, 0)
		if int(uint32(now)) != user.UID {
			done <- fmt.Errorf("make files as user %d: %w", user.UID, os.ErrPermission)
			return
		}
		work()
		done <- nil
	}()
	return <-done
}

// prepareRunDir makes a run directory for a user who could not make it, where it is missing in a directory that only root
// may write to. What fails is tried again as the user, and that error is the one to report.
func prepareRunDir(path string, user *User) {
	above, err := os.Lstat(filepath.Dir(path))
	if err != nil || !above.IsDir() || above.Mode().Perm()&0o022 != 0 {
		return
	}
	if stat, ok := above.Sys().(*syscall.Stat_t); !ok || stat.Uid != 0 {
		return
	}
	if os.Mkdir(path, 0o700) != nil {
		return
	}
	if dir, err := os.OpenFile(path, syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0); err == nil {
		_ = dir.Chown(user.UID, user.GID)
		_ = dir.Close()
	}
}
