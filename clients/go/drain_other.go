//go:build !linux

package logdrive

import (
	"fmt"
	"runtime"
)

// joinAgent and startSidecar fail here, so that records go to slog as text.

func (c *core) joinAgent(*Options) error {
	return fmt.Errorf("%w: agents are for Linux, and this is %s", errNoDrain, runtime.GOOS)
}

func (c *core) startSidecar(*Options) error {
	return fmt.Errorf("%w: rings in shared memory are for Linux, and this is %s", errNoDrain, runtime.GOOS)
}
