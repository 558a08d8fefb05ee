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

type mapping struct {
	base  unsafe.Pointer
	bytes uintptr
}

func mapPlain(*os.File, uintptr) (mapping, error)        { return mapping{}, errSystem }
func mapRing(*os.File, uintptr, bool) (mapping, error)   { return mapping{}, errSystem }
func reserve(*os.File, int64, int64) error               { return errSystem }
func futexSleep(_ *uint32, _ uint32, most time.Duration) { time.Sleep(most) }
func futexRouse(*uint32)                                 {}

func (mapping) unmap() error                       { return errSystem }
func (mapping) replace(func(unsafe.Pointer)) error { return errSystem }
func threadID() uint64                             { return 0 }
func memoryKills() (kills [3]uint64)               { return kills }

func prepareRunDir(string, *User) {}
func workAs(*User, func()) error  { return errSystem }

// directory is where a session would live.
type directory struct{}

func newDirectory(string, string, *User) (*directory, error)  { return nil, errSystem }
func (*directory) fill(Options) (*Session, error)             { return nil, errSystem }
func (*directory) makeRing(*Session, int, int) (*Ring, error) { return nil, errSystem }
func (*directory) path() string                               { return "" }
func (*directory) remove() error                              { return errSystem }
func (*directory) release()                                   {}
func (*directory) sinkStats() []SinkStats                     { return nil }

// ownFile is a file of a session, which there is not.
type ownFile struct{}

func own(*os.File) (*ownFile, error)            { return nil, errSystem }
func (*ownFile) use(func(*os.File) error) error { return errSystem }
func (*ownFile) close()                         {}
