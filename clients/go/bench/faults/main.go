// Faults is the program in Go that logs by the plan of bench/src/bin/faults: each goroutine makes half of its calls, says
// so, waits for the word to go on, makes the rest, and the program ends as it is told. Words are KEY=VALUE; plan.rs there
// lists them.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/logdrive/logdrive/clients/go"
)

// plan is what the command line says.
type plan map[string]string

func (p plan) number(key string, otherwise uint64) uint64 {
	number, err := strconv.ParseUint(p[key], 10, 64)
	if err != nil {
		return otherwise
	}
	return number
}

func checksum(program, thread, at uint64) uint64 {
	return (program<<48 ^ thread<<32 ^ at + 1) * 0x9e3779b97f4a7c15
}

// calls are those of one goroutine.
type calls struct {
	log             *logdrive.Logger
	notes           *os.File
	program, thread uint64
	pause           time.Duration
	// The longest calls, as notes.rs has them: those of a goroutine that changes its thread have no share of their own.
	worst, first time.Duration
}

func (c *calls) make(from, to uint64) {
	for at := from; at < to; at++ {
		text := fmt.Sprintf("F p%d t%d n%d c%d end", c.program, c.thread, at, checksum(c.program, c.thread, at))
		begin := time.Now()
		c.log.Info("call", logdrive.String("text", text))
		took := time.Since(begin)
		if at == 0 {
			c.first = took
		} else {
			c.worst = max(c.worst, took)
		}
		slot := make([]byte, 0, 32)
		for _, word := range []uint64{at + 1, uint64(c.worst), uint64(c.first), 0} {
			slot = binary.LittleEndian.AppendUint64(slot, word)
		}
		if _, err := c.notes.WriteAt(slot, int64(c.thread)*32); err != nil {
			panic(err)
		}
		if c.pause > 0 {
			time.Sleep(c.pause)
		}
	}
}

var input = bufio.NewReader(os.Stdin)

func waitForInput() {
	if _, err := input.ReadString('\n'); err != nil {
		os.Exit(4)
	}
}

func start(given plan) *logdrive.Logger {
	full := map[string]logdrive.Full{"drop": logdrive.FullDrop, "block": logdrive.FullBlock}
	log, err := logdrive.Start(logdrive.Options{
		App: given["app"], Path: given["log"], RunDir: given["run"], Agent: given["agent"], Full: full[given["full"]],
		RingBytes: int(given.number("ring", 0)), RotateBytes: int64(given.number("rotate", 0)), Compress: given["compress"],
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return log
}

func atHalf(given plan, log *logdrive.Logger) {
	said := "half synced"
	if given.number("sync", 0) == 1 && log.Sync() != nil {
		said = "half"
	}
	if given["act"] == "setuid" {
		if err := syscall.Setuid(65534); err != nil {
			panic(err)
		}
	}
	fmt.Println(said)
	waitForInput()
}

func finish(given plan, log *logdrive.Logger) {
	switch given["end"] {
	case "stop":
		if err := log.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(5)
		}
	case "exit":
		os.Exit(3)
	case "panic":
		panic("as told")
	case "exec":
		panic(syscall.Exec("/bin/true", []string{"true"}, nil))
	case "eat":
		var all [][]byte
		for {
			block := make([]byte, 1<<20)
			for at := range block {
				block[at] = 1
			}
			all = append(all, block)
		}
	case "wait":
		select {}
	}
}

func main() {
	given := plan{}
	for _, word := range os.Args[1:] {
		key, value, _ := strings.Cut(word, "=")
		given[key] = value
	}
	log := start(given)
	notes, err := os.OpenFile(given["notes"], os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		panic(err)
	}
	threads, records := given.number("threads", 1), given.number("records", 100)
	var half, done sync.WaitGroup
	goOn := make(chan struct{})
	half.Add(int(threads))
	done.Add(int(threads))
	for thread := range threads {
		own := calls{log: log, notes: notes, program: given.number("program", 0), thread: thread,
			pause: time.Duration(given.number("pause_us", 0)) * time.Microsecond}
		go func() {
			own.make(0, records/2)
			half.Done()
			<-goOn
			own.make(records/2, records)
			done.Done()
			select {}
		}()
	}
	half.Wait()
	atHalf(given, log)
	close(goOn)
	done.Wait()
	fmt.Println("done")
	waitForInput()
	finish(given, log)
}
