package logdrive

import (
	"fmt"
	"log/slog"
	"math"
	"sort"
	"strings"

	"github.com/logdrive/logdrive/clients/go/internal/ring"
	"github.com/logdrive/logdrive/clients/go/internal/wire"
)

// Level is the severity of a record. Warn and above may use the reserved last eighth of a ring, so that a flood of debug
// records never crowds them out.
type Level uint8

// The levels, as in all of Logdrive.
const (
	LevelTrace = Level(wire.LevelTrace)
	LevelDebug = Level(wire.LevelDebug)
	LevelInfo  = Level(wire.LevelInfo)
	LevelWarn  = Level(wire.LevelWarn)
	LevelError = Level(wire.LevelError)
	LevelFatal = Level(wire.LevelFatal)
	levelOff   = Level(255)
)

var levelNames = [...]string{"trace", "debug", "info", "warn", "error", "fatal"}

// String returns the level's name.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return "off"
}

// ParseLevel reads the name of a level, in letters of any case: trace, debug, info, warn, error, fatal or off.
func ParseLevel(name string) (Level, error) {
	level, ok := levelNamed(name)
	if !ok {
		return 0, fmt.Errorf("%q is not a level%s: one of trace, debug, info, warn, error, fatal, off", name, hint(name))
	}
	return level, nil
}

// MarshalText returns the level's name, for configurations, flags and JSON.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads what [ParseLevel] reads.
func (l *Level) UnmarshalText(text []byte) error {
	level, err := ParseLevel(string(text))
	if err != nil {
		return err
	}
	*l = level
	return nil
}

// Level returns the level of package log/slog, so that a Level is a [log/slog.Leveler].
func (l Level) Level() slog.Level {
	if l > LevelFatal {
		return slog.Level(math.MaxInt)
	}
	return slogLevel(wire.Level(l))
}

// filter is the process's own choice of levels: one for all callsites, and others for packages. Rules of live control
// take precedence.
type filter struct {
	all     Level
	targets []target // the longest name first
}

type target struct {
	name  string
	level Level
}

// parseFilter reads directives such as "info,example.com/shop/net=trace".
func parseFilter(text string) (*filter, error) {
	parsed, wrong := readFilter(text, &filter{all: LevelDebug})
	if len(wrong) > 0 {
		return nil, wrong[0]
	}
	return parsed, nil
}

// readFilter reads directives, without those that cannot be read, which it returns: a program must start, whatever a
// variable of the environment says. Where no level for all is left, that of otherwise holds; where nothing is left, all
// of it.
func readFilter(text string, otherwise *filter) (*filter, []error) {
	parsed := &filter{all: otherwise.all}
	var wrong []error
	count := 0
	for _, directive := range strings.Split(text, ",") {
		directive = strings.TrimSpace(directive)
		if directive == "" {
			continue
		}
		name, level, named := strings.Cut(directive, "=")
		if !named {
			level = name
		}
		level = strings.TrimSpace(level)
		found, ok := levelNamed(level)
		if !ok {
			wrong = append(wrong, fmt.Errorf("cannot read the level %q%s: one of trace, debug, info, warn, error, fatal, off",
				level, hint(level)))
			continue
		}
		count++
		if named {
			parsed.targets = append(parsed.targets, target{strings.TrimSpace(name), found})
		} else {
			parsed.all = found
		}
	}
	if count == 0 && len(wrong) > 0 {
		return otherwise, wrong
	}
	sort.SliceStable(parsed.targets, func(a, b int) bool {
		return len(parsed.targets[a].name) > len(parsed.targets[b].name)
	})
	return parsed, wrong
}

// hint names the level that a word may mean: the beginning of that level, or that level and more.
func hint(word string) string {
	word = strings.ToLower(word)
	for _, level := range append(levelNames[:], "off") {
		if len(word) >= 2 && (strings.HasPrefix(level, word[:min(len(word), 3)]) || strings.HasPrefix(word, level)) {
			return ", which may mean " + level
		}
	}
	return ""
}

func levelNamed(name string) (Level, bool) {
	for level, known := range levelNames {
		if strings.EqualFold(name, known) {
			return Level(level), true
		}
	}
	return levelOff, strings.EqualFold(name, "off")
}

// base returns the control word that the filter gives a callsite.
func (f *filter) base(callsite *wire.Callsite) uint32 {
	name := callsite.Target
	if name == "" {
		name = callsite.Module
	}
	lowest := f.all
	for _, target := range f.targets {
		if ring.IsBelow(name, target.name) {
			lowest = target.level
			break
		}
	}
	if Level(callsite.Level) >= lowest {
		return ring.On
	}
	return ring.Off
}

// lowest returns the lowest level that is on for some callsite.
func (f *filter) lowest() Level {
	lowest := f.all
	for _, target := range f.targets {
		lowest = min(lowest, target.level)
	}
	return lowest
}
