//go:build !linux

package ring

import (
	"errors"
	"os"
	"time"
	"unsafe"
)

// Rings are memory that is shared with another process, and found by it, which is implemented here for Linux only. On other
// systems there is no session, and records go to slog as text.
var errSystem = errors.New("rings in shared memory are for Linux")

type mapping struct{ base unsafe.Pointer }

func mapPlain(*os.File, uintptr) (mapping, error)        { return mapping{}, errSystem }
func mapRing(*os.File, uintptr, bool) (mapping, error)   { return mapping{}, errSystem }
func reserve(*os.File, int64, int64) error               { return errSystem }
func futexSleep(_ *uint32, _ uint32, most time.Duration) { time.Sleep(most) }
func futexRouse(*uint32)                                 {}

func (mapping) unmap() error { return errSystem }
func threadID() uint64       { return 0 }

// directory is where a session would live.
type directory struct{}

func newDirectory(string, string) (*directory, error)    { return nil, errSystem }
func (*directory) fill(Options) (*Session, error)        { return nil, errSystem }
func (*directory) makeRing(*Session, int) (*Ring, error) { return nil, errSystem }
func (*directory) path() string                          { return "" }
func (*directory) remove() error                         { return errSystem }
