//go:build linux

package ring

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// fileID is the identity of a file, under whatever path.
type fileID struct{ dev, ino uint64 }

// ownFile is an open file in a program that may close descriptors which are not its own, as daemons do at their start, and
// use the number again for a file of its own. Each use checks that the descriptor is still this file; one that is not is
// neither used nor closed.
type ownFile struct {
	file *os.File
	id   fileID
	// path finds the file anew; empty for memory, which has none.
	path string
}

// own takes an open file.
func own(file *os.File) (*ownFile, error) {
	id, err := idOf(file)
	if err != nil {
		return nil, err
	}
	owned := &ownFile{file: file, id: id}
	if len(file.Name()) > 0 && file.Name()[0] == '/' {
		owned.path = file.Name()
	}
	return owned, nil
}

func idOf(file *os.File) (fileID, error) {
	info, err := file.Stat()
	if err != nil {
		return fileID{}, fmt.Errorf("look at %s: %w", file.Name(), err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, fmt.Errorf("look at %s: the system does not say which file it is", file.Name())
	}
	return fileID{uint64(stat.Dev), uint64(stat.Ino)}, nil
}

func (o *ownFile) isOpen() bool {
	id, err := idOf(o.file)
	return err == nil && id == o.id
}

// errLost is returned where the program has closed a descriptor and there is no other way to the file.
var errLost = errors.New("the program has closed a descriptor of the logger")

// use calls what needs the file, opened anew where the program has closed the descriptor.
func (o *ownFile) use(with func(file *os.File) error) error {
	if o.isOpen() {
		return with(o.file)
	}
	if o.path == "" {
		return errLost
	}
	file, err := os.OpenFile(o.path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	defer file.Close()
	if id, err := idOf(file); err != nil || id != o.id {
		return fmt.Errorf("%w: %s is another file now", errLost, o.path)
	}
	return with(file)
}

// close closes the descriptor, if it is still this file's.
func (o *ownFile) close() {
	if o.isOpen() {
		_ = o.file.Close() // What was written is in the mapping.
		return
	}
	// The number is the program's, or nobody's: the collector must not close it with the file.
	strays.Store(o.file, true)
}

// strays keeps files whose descriptor is another's from being collected, which would close it.
var strays sync.Map
