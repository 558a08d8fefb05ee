module github.com/logdrive/logdrive/clients/go

go 1.22
