#include "textflag.h"

// R12 is the address of a struct call, 64 bytes: number, six arguments, result. R12 and R13 survive
// system calls.

#define ARGUMENTS \
	MOVQ	0(R12), AX; \
	MOVQ	8(R12), DI; \
	MOVQ	16(R12), SI; \
	MOVQ	24(R12), DX; \
	MOVQ	32(R12), R10; \
	MOVQ	40(R12), R8; \
	MOVQ	48(R12), R9

// The lowest 32 bits of the number are that of the system call. If the number is negative, a new
// process or thread, to which the call returns 0, goes on at the address in the last argument. If the
// next lower bit is set, a call that fails is followed by the one at that address.
#define LOOP \
next: \
	ARGUMENTS; \
	MOVQ	R9, R13; \
	MOVL	AX, AX; \
	SYSCALL; \
	TESTQ	AX, AX; \
	JNZ	store; \
	CMPQ	0(R12), AX; \
	JGE	store; \
	MOVQ	R13, R12; \
	JMP	next; \
store: \
	MOVQ	AX, 56(R12); \
	ADDQ	$64, R12; \
	TESTQ	AX, AX; \
	JGE	next; \
	BTQ	$62, -64(R12); \
	JCC	next; \
	MOVQ	R13, R12; \
	JMP	next

// func startCall(c *call) uintptr
TEXT ·startCall(SB), NOSPLIT, $0-16
	MOVQ	c+0(FP), R12
	ARGUMENTS
	MOVQ	R9, R13
	MOVL	AX, AX
	SYSCALL
	TESTQ	AX, AX
	JZ	child
	MOVQ	AX, ret+8(FP)
	RET
child:
	MOVQ	R13, R12
	LOOP

// func resume()
TEXT ·resume(SB), NOSPLIT, $0-0
	MOVQ	$0x400178, BX // headers and code are before
	MOVQ	0(BX), DI
	MOVQ	8(BX), SI
	MOVL	$3, DX // PROT_READ|PROT_WRITE
	MOVL	$0x11, R10 // MAP_SHARED|MAP_FIXED
	MOVQ	16(BX), R8
	XORL	R9, R9
	MOVL	$9, AX // mmap
	SYSCALL
	MOVQ	24(BX), R12
	LOOP

// func resumeCode() unsafe.Pointer
TEXT ·resumeCode(SB), NOSPLIT, $0-8
	LEAQ	·resume(SB), AX
	MOVQ	AX, ret+0(FP)
	RET
