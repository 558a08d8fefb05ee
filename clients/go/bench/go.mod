module github.com/logdrive/logdrive/clients/go/bench

go 1.26.0

require (
	github.com/logdrive/logdrive/clients/go v0.1.0
	github.com/logdrive/logdrive/clients/go/quicgo v0.0.0
	github.com/phuslu/log v1.0.121
	github.com/quic-go/quic-go v0.65.0
	github.com/rs/zerolog v1.35.1
	go.uber.org/zap v1.28.0
)

require (
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	go.uber.org/multierr v1.10.0 // indirect
	golang.org/x/crypto v0.54.0 // indirect
	golang.org/x/net v0.56.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace (
	github.com/logdrive/logdrive/clients/go => ../
	github.com/logdrive/logdrive/clients/go/quicgo => ../quicgo
)
