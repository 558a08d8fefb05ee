package logdrive_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	logdrive "github.com/logdrive/logdrive/clients/go"
)

// exampleLog starts a log for an example, and gives what is in it at the end, without times and threads.
func exampleLog() (*logdrive.Logger, func()) {
	dir, err := os.MkdirTemp("", "logdrive-example")
	if err != nil {
		log.Fatal(err)
	}
	bin := logdrive.Built()
	path := filepath.Join(dir, "shop.log")
	options := logdrive.Options{App: "shop", Path: path, RunDir: filepath.Join(dir, "run"), Bin: bin, Layout: logdrive.Logfmt, Fallback: os.Stdout}
	logger, err := logdrive.Start(options)
	if err != nil {
		log.Fatal(err)
	}
	return logger, func() {
		defer os.RemoveAll(dir)
		if err := logger.Close(); err != nil {
			log.Fatal(err)
		}
		text, _ := os.ReadFile(path)
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			if strings.Contains(line, "the session is in ") {
				continue // Where the directory is on a disk, the log says so.
			}
			level, _, _ := strings.Cut(line[strings.Index(line, "level="):], " ")
			fmt.Println(level, line[strings.Index(line, "message="):])
		}
	}
}

func Example() {
	log, show := exampleLog()
	log.Info("order filled", logdrive.Int64("id", 7), logdrive.Float64("price", 9.5))
	log.Trace("not shown: the level is debug")
	show()
	// Output: level=info message="order filled" id=7 price=9.5
}

func ExampleLogger_With() {
	log, show := exampleLog()
	request := log.With(logdrive.String("request", "r7"))
	request.Warn("slow", logdrive.Duration("took", 1500*time.Millisecond))
	show()
	// Output: level=warn message="slow" request=r7 took=1.5s
}

func ExampleLogger_Put() {
	// Made once, beside the code that writes it by the million.
	filled := logdrive.NewShape(logdrive.LevelInfo, "order filled", logdrive.Int64("id", 0), logdrive.String("side", ""),
		logdrive.Float64("price", 0))
	log, show := exampleLog()
	log.Put(filled, []uint64{7, math.Float64bits(9.5)}, "buy")
	show()
	// Output: level=info message="order filled" id=7 side=buy price=9.5
}

func ExampleLogger_Slog() {
	logger, show := exampleLog()
	log := logger.Slog().WithGroup("order")
	log.LogAttrs(context.Background(), slog.LevelInfo, "filled", slog.Int("id", 7), slog.Bool("last", true))
	show()
	// Output: level=info message="filled" order.id=7 order.last=true
}

func ExampleLogger_Writer() {
	logger, show := exampleLog()
	log := log.New(logger.Writer(logdrive.LevelInfo), "", 0)
	log.Print("[warn] the disk is slow")
	show()
	// Output: level=warn message="[warn] the disk is slow"
}
