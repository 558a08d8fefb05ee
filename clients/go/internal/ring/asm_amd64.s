#include "go_asm.h"
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

// func seal(p *Producer, record unsafe.Pointer, length uint64, id uint32)
//
// The end of a record in one go: its header, with the time, then what publish does, and a request for the cache lines
// that the next records will need. The drain has read them since they were written last, so that they have to come back
// from the other core; that takes longer than all of a call.
TEXT ·seal(SB), NOSPLIT, $0-28
	MOVQ	p+0(FP), SI
	MOVQ	record+8(FP), DI
	MOVQ	length+16(FP), R8
	MOVL	id+24(FP), R9
	RDTSC
	SHLQ	$32, DX
	ORQ	DX, AX
	MOVL	R8, (DI)
	MOVL	R9, 4(DI)
	MOVQ	AX, 8(DI)
	MOVQ	Producer_header(SI), R10
	MOVQ	Producer_records(SI), R11
	ADDQ	Producer_position(SI), R8
	INCQ	R11
	MOVQ	R8, Producer_position(SI)
	MOVQ	R11, Producer_records(SI)
	// SYNC(commit): the record's bytes are stored before the position that covers them.
	MOVQ	R8, 64(R10)
	MOVQ	R11, 72(R10)
	ADDQ	$const_prefetchBytes, R8
	ANDQ	Producer_mask(SI), R8
	ADDQ	Producer_data(SI), R8
	// PREFETCHW (R8), and of the line behind it: the data is mapped twice in a row. The assembler has no name for it.
	BYTE	$0x41; BYTE $0x0f; BYTE $0x0d; BYTE $0x08
	ADDQ	$64, R8
	BYTE	$0x41; BYTE $0x0f; BYTE $0x0d; BYTE $0x08
	RET

// func cpuid(leaf uint32) (eax, edx uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-16
	MOVL	leaf+0(FP), AX
	XORL	CX, CX
	CPUID
	MOVL	AX, eax+8(FP)
	MOVL	DX, edx+12(FP)
	RET
