// Package logdrive is the log for programs that are too fast to log: leave debug on. A call writes typed values into a
// ring in shared memory and costs about a clock read. Formatting, ordering, files and their rotation happen in another
// process, and what a call has written survives SIGKILL of the program.
//
//	func main() {
//		log, err := logdrive.Init("shop")
//		if err != nil {
//			fmt.Fprintln(os.Stderr, err)
//			os.Exit(1)
//		}
//		defer log.Close()
//		log.Info("order filled", logdrive.Int64("id", 7), logdrive.Float64("price", 9.5))
//	}
//
// # Where the records go
//
// The drain is the program `logdrive`. With LOGDRIVE_AGENT, or [Options.Agent], an agent drains the session, if the log is
// one file; else, and for standard output or several sinks, the module starts `logdrive` as its sidecar, from LOGDRIVE_BIN,
// [Options.Bin] or PATH. The sidecar outlives the program, so that a crash loses nothing that a call had written. Where both
// are killed at once, the session stays in /dev/shm/logdrive-UID, and the next start of the program or `logdrive recover`
// brings it into the log. In a container the sidecar ends with process 1: call [Logger.Close] or [Logger.EndOnSignals], and
// set [Options.RunDir] to a volume. Where there is no such program, the package reports that once, and writes records to
// standard error through [log/slog.TextHandler].
//
// # Package slog, package log
//
// [Logger.Slog] and [NewHandler] are for package log/slog, [Logger.Writer] for package log and anything that prints
// lines. With the layout [JSON] lines are those of [slog.JSONHandler]. The module clients/go/quicgo traces quic-go.
//
// # What a call costs
//
// There is one ring for each P, so that a call needs no lock: while it writes, its goroutine stays where it is, as in
// sync.Pool. Callsites are identified by the program counter, and registered by their first call. A field is a value
// on the stack; a call allocates nothing, but for [Any] of what is no basic type, [Group], errors whose text is made
// anew, and messages that differ from call to call. What writes the same record by the million makes a [Shape] of it, whose
// keys are not looked at again; see [Logger.Put].
//
// # Goroutines
//
// A record bears the name of the P that wrote it, such as P3, in the place of a thread's.
//
// # Limits
//
// Rings are for Linux; elsewhere the package compiles, and records go to standard error as text. A logger that is closed
// gives memory and descriptors back; some megabytes of addresses stay, because calls that come late may look there.
package logdrive
