package quicgo_test

import (
	"context"
	"fmt"
	"io"
	"log"

	"github.com/logdrive/logdrive/clients/go"
	"github.com/logdrive/logdrive/clients/go/quicgo"
	"github.com/quic-go/quic-go"
)

func Example() {
	// A program says logdrive.Init("shop"). Here nobody drains, and the text that says so goes nowhere.
	logger, err := logdrive.Start(logdrive.Options{App: "shop", Bin: "no such program", Fallback: io.Discard})
	if err != nil {
		log.Fatal(err)
	}
	defer logger.Close()
	tracer := quicgo.New(logger)
	tracer.SampleConnections(16)               // From now on, one connection in sixteen;
	tracer.SampleEvent("metrics_updated", 100) // and of those one in a hundred of these.
	config := &quic.Config{Tracer: tracer.ForConnection}
	for number := range 17 {
		trace := config.Tracer(context.Background(), true, quic.ConnectionIDFromBytes([]byte{byte(number)}))
		if trace != nil {
			fmt.Println("connection", number, "is traced")
		}
	}
	// Output:
	// connection 0 is traced
	// connection 16 is traced
}
