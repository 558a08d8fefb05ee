#include "textflag.h"

// func counter() uint64
TEXT ·counter(SB), NOSPLIT, $0-8
	RDTSC
	SHLQ	$32, DX
	ORQ	DX, AX
	MOVQ	AX, ret+0(FP)
	RET

// func publish(header unsafe.Pointer, position, records uint64)
//
// Plain stores are release stores on this processor, and the compiler moves nothing across a call into assembly. The
// same with sync/atomic is an exchange, which waits until the store buffer is empty.
TEXT ·publish(SB), NOSPLIT, $0-24
	MOVQ	header+0(FP), AX
	MOVQ	position+8(FP), BX
	MOVQ	records+16(FP), CX
	MOVQ	BX, 64(AX)
	MOVQ	CX, 72(AX)
	RET

// func cpuid(leaf uint32) (eax, edx uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-16
	MOVL	leaf+0(FP), AX
	XORL	CX, CX
	CPUID
	MOVL	AX, eax+8(FP)
	MOVL	DX, edx+12(FP)
	RET
