#include "textflag.h"

// The thread runs system calls from struct call, 64 bytes each: number, six
// arguments, result. R19 survives system calls.

// func threadStart(flags, stack, script uintptr) uintptr
TEXT ·threadStart(SB), NOSPLIT, $0-32
	MOVD	flags+0(FP), R0
	MOVD	stack+8(FP), R1
	MOVD	script+16(FP), R19
	MOVD	$0, R2
	MOVD	$0, R3
	MOVD	$0, R4
	MOVD	$220, R8 // clone
	SVC
	CBZ	R0, next
	MOVD	R0, ret+24(FP)
	RET
next:
	MOVD	0(R19), R8
	MOVD	8(R19), R0
	MOVD	16(R19), R1
	MOVD	24(R19), R2
	MOVD	32(R19), R3
	MOVD	40(R19), R4
	MOVD	48(R19), R5
	SVC
	MOVD	R0, 56(R19)
	ADD	$64, R19
	B	next
