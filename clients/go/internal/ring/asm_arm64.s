#include "textflag.h"

// func counter() uint64
TEXT ·counter(SB), NOSPLIT, $0-8
	MRS	CNTVCT_EL0, R0
	MOVD	R0, ret+0(FP)
	RET

// func publish(header unsafe.Pointer, position, records uint64)
TEXT ·publish(SB), NOSPLIT, $0-24
	MOVD	header+0(FP), R0
	MOVD	position+8(FP), R1
	MOVD	records+16(FP), R2
	ADD	$64, R0, R3
	STLR	R1, (R3)
	MOVD	R2, 72(R0)
	RET
