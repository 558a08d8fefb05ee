#include "textflag.h"

// func callerPC() uintptr
//
// Go calls this without a frame in between, so that the frame pointer is the caller's, and above it stands where that was
// called.
TEXT ·callerPC(SB), NOSPLIT|NOFRAME, $0-8
	MOVD	8(R29), R0
	MOVD	R0, ret+0(FP)
	RET

// func calledFrom() uintptr
TEXT ·calledFrom(SB), NOSPLIT|NOFRAME, $0-8
	MOVD	(R29), R0
	MOVD	8(R0), R0
	MOVD	R0, ret+0(FP)
	RET
