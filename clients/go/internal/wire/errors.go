package wire

import (
	"errors"
	"fmt"
)

// The families of errors, as the vectors name them.
var (
	// ErrTruncated: there are fewer bytes than there should be.
	ErrTruncated = errors.New("truncated")
	// ErrLimit: a number is beyond what the format allows.
	ErrLimit = errors.New("limit")
	// ErrUnknown: a code that the format does not have.
	ErrUnknown = errors.New("unknown")
	// ErrNotUTF8: a text that has to be UTF-8 is not.
	ErrNotUTF8 = errors.New("not_utf8")
)

// fail makes an error of a family.
func fail(family error, format string, args ...any) error {
	return fmt.Errorf("%w: %s", family, fmt.Sprintf(format, args...))
}
