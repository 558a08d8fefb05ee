package main

import "net"

func listen() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

func dial(listener net.Listener) (net.Conn, error) { return net.Dial("tcp", listener.Addr().String()) }
