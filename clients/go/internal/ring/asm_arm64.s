#include "go_asm.h"
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

// func seal(p *Producer, record unsafe.Pointer, length uint64, id uint32)
//
// See the one for amd64.
TEXT ·seal(SB), NOSPLIT, $0-28
	MOVD	p+0(FP), R0
	MOVD	record+8(FP), R1
	MOVD	length+16(FP), R2
	MOVWU	id+24(FP), R3
	MRS	CNTVCT_EL0, R4
	MOVW	R2, (R1)
	MOVW	R3, 4(R1)
	MOVD	R4, 8(R1)
	MOVD	Producer_position(R0), R5
	MOVD	Producer_records(R0), R6
	MOVD	Producer_header(R0), R7
	ADD	R2, R5, R5
	ADD	$1, R6, R6
	MOVD	R5, Producer_position(R0)
	MOVD	R6, Producer_records(R0)
	// SYNC(commit)
	ADD	$64, R7, R8
	STLR	R5, (R8)
	MOVD	R6, 72(R7)
	ADD	$const_prefetchBytes, R5, R5
	MOVD	Producer_mask(R0), R9
	AND	R9, R5, R5
	MOVD	Producer_data(R0), R9
	ADD	R9, R5, R5
	PRFM	(R5), PSTL1KEEP
	ADD	$64, R5, R5
	PRFM	(R5), PSTL1KEEP
	RET
