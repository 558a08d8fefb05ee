package ring

import (
	"fmt"
	"os"
	"strings"
)

// DefaultRunDir is shared memory that goes away with the machine's power, of a user that the program becomes, or its own.
func DefaultRunDir(user *User) string {
	uid := os.Geteuid()
	if user != nil {
		uid = user.UID
	}
	return fmt.Sprintf("/dev/shm/logdrive-%d", uid)
}

// FilePart is an application's name as part of a file name.
func FilePart(app string) string {
	var part strings.Builder
	taken := 0
	for _, r := range app {
		if taken++; taken > 48 {
			break
		}
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			part.WriteRune(r)
		default:
			part.WriteByte('_')
		}
	}
	if name := strings.TrimLeft(part.String(), "."); name != "" {
		return name
	}
	return "app"
}
