package logdrive

import (
	"fmt"
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
	parsed := &filter{all: LevelDebug}
	for _, directive := range strings.Split(text, ",") {
		directive = strings.TrimSpace(directive)
		if directive == "" {
			continue
		}
		name, level, named := strings.Cut(directive, "=")
		if !named {
			level = name
		}
		found, ok := levelNamed(strings.TrimSpace(level))
		if !ok {
			return nil, fmt.Errorf("%q is not a level: one of trace, debug, info, warn, error, fatal, off", level)
		}
		if named {
			parsed.targets = append(parsed.targets, target{strings.TrimSpace(name), found})
		} else {
			parsed.all = found
		}
	}
	sort.SliceStable(parsed.targets, func(a, b int) bool {
		return len(parsed.targets[a].name) > len(parsed.targets[b].name)
	})
	return parsed, nil
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
