//go:build !amd64

package main

import "time"

var begin = time.Now()

// ticks are nanoseconds here.
func ticks() uint64 { return uint64(time.Since(begin)) }
