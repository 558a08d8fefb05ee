//go:build !amd64 && !arm64

package ring

// sysMemfdCreate is no system call: on such machines an agent's session has the rings that the agent sends.
const sysMemfdCreate = ^uintptr(0)
