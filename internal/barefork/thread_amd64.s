#include "textflag.h"

// The thread runs system calls from struct call, 64 bytes each: number, six
// arguments, result. R12 survives system calls.

// func threadStart(flags, stack, script uintptr) uintptr
TEXT ·threadStart(SB), NOSPLIT, $0-32
	MOVQ	flags+0(FP), DI
	MOVQ	stack+8(FP), SI
	MOVQ	script+16(FP), R12
	XORL	DX, DX
	XORL	R10, R10
	XORL	R8, R8
	MOVL	$56, AX // clone
	SYSCALL
	TESTQ	AX, AX
	JZ	next
	MOVQ	AX, ret+24(FP)
	RET
next:
	MOVQ	0(R12), AX
	MOVQ	8(R12), DI
	MOVQ	16(R12), SI
	MOVQ	24(R12), DX
	MOVQ	32(R12), R10
	MOVQ	40(R12), R8
	MOVQ	48(R12), R9
	SYSCALL
	MOVQ	AX, 56(R12)
	ADDQ	$64, R12
	JMP	next
