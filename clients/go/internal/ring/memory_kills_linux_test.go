package ring

import (
	"os"
	"path/filepath"
	"testing"
)

func TestKillsAreCountedAsTheKernelTellsThem(t *testing.T) {
	file := filepath.Join(t.TempDir(), "memory.events")
	for _, one := range []struct {
		text  string
		count uint64
		ok    bool
	}{
		{"low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 1\n", 2, true},
		{"oom_kill_disable 0\nunder_oom 0\noom_kill 18446744073709551615", 1<<64 - 1, true},
		{"oom_kill many\n", 0, false},
		{"oom 3\n", 0, false},
		{"", 0, false},
	} {
		if err := os.WriteFile(file, []byte(one.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if count, ok := killsIn(file); count != one.count || ok != one.ok {
			t.Errorf("%q: %d, %v; expected %d, %v", one.text, count, ok, one.count, one.ok)
		}
	}
	if _, ok := killsIn(file + ".gone"); ok {
		t.Error("a file that is not there has no count")
	}
}
