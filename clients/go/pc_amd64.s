#include "textflag.h"

// func callerPC() uintptr
//
// Go calls this without a frame in between, so that the frame pointer is the caller's, and above it stands where that was
// called.
TEXT ·callerPC(SB), NOSPLIT|NOFRAME, $0-8
	MOVQ	8(BP), AX
	MOVQ	AX, ret+0(FP)
	RET

// func calledFrom() uintptr
TEXT ·calledFrom(SB), NOSPLIT|NOFRAME, $0-8
	MOVQ	(BP), AX
	MOVQ	8(AX), AX
	MOVQ	AX, ret+0(FP)
	RET
