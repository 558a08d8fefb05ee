package logdrive_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	logdrive "github.com/logdrive/logdrive/clients/go"
)

func ExampleField() {
	log, show := exampleLog()
	var field logdrive.Field = logdrive.Int("a", -1)
	log.Info("signed", field, logdrive.Int8("b", -8), logdrive.Int16("c", -16), logdrive.Int32("d", -32), logdrive.Int64("e", -64))
	log.Info("unsigned", logdrive.Uint("a", 1), logdrive.Uint8("b", 8), logdrive.Uint16("c", 16), logdrive.Uint32("d", 32), logdrive.Uint64("e", 64))
	log.Info("others", logdrive.Float32("a", 0.5), logdrive.Bool("b", true), logdrive.Rune("c", 'ß'), logdrive.Bytes("d", []byte("raw")),
		logdrive.Uintptr("e", 255))
	log.Info("rendered", logdrive.Stringer("a", time.Second), logdrive.NamedErr("b", errors.New("gone")), logdrive.Err(nil),
		logdrive.Time("c", time.Unix(0, 0)), logdrive.Any("d", []int{1, 2}))
	log.Info("nested", logdrive.Group("g", logdrive.Int("a", 1)), logdrive.Slice("list", []int{1, 2}), logdrive.Object("object", map[string]int{"a": 1}))
	show()
	// Output:
	// level=info message="signed" a=-1 b=-8 c=-16 d=-32 e=-64
	// level=info message="unsigned" a=1 b=8 c=16 d=32 e=64
	// level=info message="others" a=0.5 b=true c="ß" d=raw e=0xff
	// level=info message="rendered" a=1s b=gone c=1970-01-01T00:00:00Z d="[1 2]"
	// level=info message="nested" g.a=1 list=[1,2] object="{\"a\":1}"
}

func ExampleLevel() {
	level, err := logdrive.ParseLevel("Warn")
	fmt.Println(level, err, level.Level(), level == logdrive.LevelWarn, level < logdrive.LevelError)
	text, _ := logdrive.LevelFatal.MarshalText()
	_ = level.UnmarshalText([]byte("trace"))
	fmt.Println(string(text), level.String())
	// Output:
	// warn <nil> WARN true true
	// fatal trace
}

func ExampleInit() {
	before := logdrive.Default() // It does nothing yet.
	before.Info("not written")
	log, show := exampleLog() // In a program: logdrive.Init("shop")
	logdrive.SetDefault(log)
	defer logdrive.SetDefault(before)
	logdrive.Trace("not shown")
	logdrive.Debug("one")
	logdrive.Info("two")
	logdrive.Warn("three")
	logdrive.Error("four")
	show()
	// Output:
	// level=debug message="one"
	// level=info message="two"
	// level=warn message="three"
	// level=error message="four"
}

func ExampleNewContext() {
	log, captured := logdrive.NewCapture()
	ctx := logdrive.NewContext(context.Background(), log.With(logdrive.String("request", "r7")))
	logdrive.FromContext(ctx).InfoContext(ctx, "served")
	logdrive.FromContext(context.Background()).ErrorContext(ctx, "not written: there is no logger in this context")
	for _, record := range captured.Records() {
		fmt.Println(record.Level, record.Message, record.Fields["request"])
	}
	// Output: info served r7
}

func ExampleLogger_InfoContext() {
	log, captured := logdrive.NewCapture() // Options.FromContext adds fields.
	ctx := context.Background()
	log.TraceContext(ctx, "a")
	log.DebugContext(ctx, "b")
	log.InfoContext(ctx, "c")
	log.WarnContext(ctx, "d")
	log.ErrorContext(ctx, "e")
	fmt.Println(len(captured.Records()))
	// Output: 5
}

func ExampleCapture() {
	var captured *logdrive.Capture
	log, captured := logdrive.NewCapture()
	log.Warn("slow", logdrive.Int64("ms", 700))
	var first logdrive.Captured = captured.Records()[0]
	fmt.Println(first.Level, first.Message, first.Fields["ms"])
	captured.Reset()
	fmt.Println(len(captured.Records()))
	// Output:
	// warn slow 700
	// 0
}

func ExampleLogger() {
	log, show := exampleLog()
	log.Debug("detail")
	log.Error("failed")
	log.Log(logdrive.LevelInfo, "of a level that is known at the call")
	log.LogAt(0, logdrive.LevelInfo, "of an unknown place")
	log.WithGroup("g").WithTarget("orders").Info("grouped", logdrive.Int("a", 1))
	fmt.Println(log.SetLevel("warn"), log.Enabled(logdrive.LevelInfo), log.Flush(), log.Sync())
	defer log.EndOnSignals()()
	var stats logdrive.Stats = log.Stats()
	var sink logdrive.SinkStats
	if len(stats.Sinks) > 0 {
		sink = stats.Sinks[0]
	}
	fmt.Println(stats.DroppedCalls(), sink.Errors)
	func() {
		defer func() { _ = recover() }()
		defer log.NotePanic() // Writes the panic with its stack, and panics again.
	}()
	show()
	// Output:
	// <nil> false <nil> <nil>
	// 0 0
	// level=debug message="detail"
	// level=error message="failed"
	// level=info message="of a level that is known at the call"
	// level=info message="of an unknown place"
	// level=info message="grouped" g.a=1
}

func ExampleLogger_Fatal() {
	log := logdrive.Nop()
	if len(os.Args) == 0 {
		log.Fatal("the program ends here, with status 1")
	}
	// Output:
}

func ExampleOptions() {
	options := logdrive.Options{
		App: "shop", Path: "logs/shop.log", Layout: logdrive.JSON, Level: "info,example.com/shop/net=trace",
		Full: logdrive.FullBlock, RotateEvery: logdrive.Period("daily"), KeepAge: 14 * 24 * time.Hour, Compress: "zstd", Mode: fs.FileMode(0o640),
	}
	if false { // Where a directory logs may be made.
		log, err := logdrive.Start(options)
		fmt.Println(log, err)
		_, _ = logdrive.Init("shop")
	}
	for _, layout := range []logdrive.Layout{logdrive.Text, logdrive.JSON, logdrive.Logfmt, logdrive.Glog, logdrive.Segments} {
		fmt.Print(layout, " ")
	}
	for _, full := range []logdrive.Full{logdrive.FullWait, logdrive.FullDrop, logdrive.FullBlock} {
		fmt.Print(full, " ")
	}
	// For a program that starts as root, and is another user later.
	options.RunAs = &logdrive.User{UID: 65534, GID: 65534}
	// Output: text json logfmt glog segments 0 1 2
}

func ExampleSink() {
	// Of a container, whose standard output is its log; warnings are kept in a file, too.
	options := logdrive.Options{App: "shop", Path: logdrive.Stdout, Layout: logdrive.JSON,
		Sinks: []logdrive.Sink{{Path: "/data/warnings.log", MinLevel: logdrive.LevelWarn, RotateBytes: 64 << 20, KeepFiles: 5}}}
	fmt.Println(options.Path, len(options.Sinks))
	// Output: - 1
}

func ExampleHandler() {
	logger, captured := logdrive.NewCapture()
	var handler *logdrive.Handler = logdrive.NewHandler(logger, &logdrive.HandlerOptions{
		FromContext: func(context.Context) []slog.Attr { return []slog.Attr{slog.String("request", "r7")} },
	})
	log := slog.New(handler.WithAttrs([]slog.Attr{slog.Int("shard", 3)}).WithGroup("order"))
	log.Info("filled", "id", 7)
	fmt.Println(handler.Enabled(context.Background(), slog.LevelDebug), len(captured.Records()))
	_ = handler.Handle(context.Background(), slog.Record{Message: "by hand"})
	// Output: true 1
}

func ExampleWriter() {
	logger, captured := logdrive.NewCapture()
	var lines *logdrive.Writer = logger.Writer(logdrive.LevelInfo)
	fmt.Fprint(lines, "ERROR: the disk is gone\nrest")
	_, _ = lines.Write([]byte(" of a line"))
	_ = lines.Close()
	for _, record := range captured.Records() {
		fmt.Println(record.Level, record.Message)
	}
	// Output:
	// error ERROR: the disk is gone
	// info rest of a line
}

func ExampleShape() {
	var filled *logdrive.Shape = logdrive.NewShape(logdrive.LevelTrace, "order filled", logdrive.Int64("id", 0))
	logger, captured := logdrive.NewCapture()
	logger.Put(filled, []uint64{7})
	fmt.Println(captured.Records()[0].Fields["id"])
	// Output: 7
}

// TestEveryExportedNameHasAnExample looks for each exported name of the package in the examples.
func TestEveryExportedNameHasAnExample(t *testing.T) {
	files := token.NewFileSet()
	isExample := func(info fs.FileInfo) bool {
		return info.Name() == "example_test.go" || info.Name() == "examples_test.go"
	}
	isCode := func(info fs.FileInfo) bool { return !strings.HasSuffix(info.Name(), "_test.go") }
	used := map[string]bool{}
	for _, read := range parsed(t, files, isExample) {
		ast.Inspect(read, func(node ast.Node) bool {
			if name, ok := node.(*ast.Ident); ok {
				used[name.Name] = true
			}
			return true
		})
	}
	for _, read := range parsed(t, files, isCode) {
		for _, declared := range read.Decls {
			for _, name := range exported(declared) {
				if !used[name] {
					t.Errorf("%s has no example", name)
				}
			}
		}
	}
}

func parsed(t *testing.T, files *token.FileSet, wanted func(fs.FileInfo) bool) (all []*ast.File) {
	t.Helper()
	packages, err := parser.ParseDir(files, ".", wanted, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, read := range packages {
		for _, file := range read.Files {
			all = append(all, file)
		}
	}
	return all
}

// exported are the exported names of a declaration; methods of types that are not exported are none.
func exported(declared ast.Decl) (names []string) {
	switch declared := declared.(type) {
	case *ast.FuncDecl:
		isOwn := declared.Recv == nil
		if !isOwn {
			kind := declared.Recv.List[0].Type
			if star, ok := kind.(*ast.StarExpr); ok {
				kind = star.X
			}
			name, ok := kind.(*ast.Ident)
			isOwn = ok && name.IsExported()
		}
		if isOwn && declared.Name.IsExported() {
			names = append(names, declared.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range declared.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					names = append(names, spec.Name.Name)
				}
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.IsExported() {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}
