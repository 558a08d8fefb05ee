package logdrive

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// endTimeout bounds the wait of [Logger.EndOnSignals] for the kernel to have the last records.
const endTimeout = 2 * time.Second

// EndOnSignals writes the remaining records when one of these signals comes, waits at most two seconds for the kernel to
// have them, and then lets the signal end the process. Without signals it handles SIGTERM, SIGINT and SIGHUP. A signal that
// is ignored stays ignored, such as SIGHUP under nohup. It returns at once, and the returned function ends the handling.
//
// It is for a program that handles none of these signals itself: one that does gets them twice, and should call
// [Logger.Close] at its end instead. It matters where the end of the program takes its sidecar with it: for process 1 of a
// container. Elsewhere the sidecar or the agent writes what the program has left.
func (l *Logger) EndOnSignals(signals ...os.Signal) (stop func()) {
	if len(signals) == 0 {
		signals = []os.Signal{syscall.SIGTERM, os.Interrupt, syscall.SIGHUP}
	}
	signals = slices.DeleteFunc(slices.Clone(signals), signal.Ignored)
	if len(signals) == 0 {
		return func() {}
	}
	came, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(came, signals...)
	go func() {
		select {
		case <-done:
		case what := <-came:
			l.closeWithin(endTimeout)
			// From here on the signal has its own action again.
			signal.Stop(came)
			raise(what)
		}
	}()
	return func() {
		signal.Stop(came)
		close(done)
	}
}

// closeWithin closes the logger, and returns when it is closed or the time is over.
func (l *Logger) closeWithin(timeout time.Duration) {
	closed := make(chan struct{})
	go func() {
		_ = l.Close() // What it has not written stays in the session.
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(timeout):
	}
}

// raise sends a signal to this process.
func raise(what os.Signal) {
	if self, err := os.FindProcess(os.Getpid()); err != nil || self.Signal(what) != nil {
		os.Exit(2)
	}
}
