package wire

import "testing"

// TestAgentVectors runs the messages that a process says or hears; those of tools are not for a front end.
func TestAgentVectors(t *testing.T) {
	kinds := map[string]bool{"hello": true, "welcome": true, "refused": true, "more_rings": true, "rings": true, "adopt": true,
		"welcome_back": true, "bye": true, "done": true, "flush": true, "flushed": true, "bell": true}
	file := load(t, "agent.json")
	ours := 0
	valid := each(t, file, "messages", func(t *testing.T, c object) {
		packet := unhex(t, c["hex"])
		found, err := DecodeAgent(packet)
		if !kinds[c["kind"].(string)] {
			if err == nil {
				t.Error("a message of a tool was taken for one of a process")
			}
			return
		}
		ours++
		if err != nil {
			t.Fatal(err)
		}
		if float64(found.Descriptors()) != c["descriptors"] || string(found.Encode()) != string(packet) {
			t.Errorf("%+v is written as %x", found, found.Encode())
		}
	})
	invalid := each(t, file, "invalid_messages", func(t *testing.T, c object) {
		if found, err := DecodeAgent(unhex(t, c["hex"])); err == nil {
			t.Errorf("taken as %+v", found)
		}
	})
	t.Logf("vectors: agent.json: %d valid, %d invalid", valid, invalid)
	if ours < 15 || invalid < 75 {
		t.Fatalf("cases have gone missing: %d %d", ours, invalid)
	}
}
