//go:build race

package logdrive

const raceIsOn = true
