#include "textflag.h"

// R19 is the address of a struct call, 64 bytes: number, six arguments, result. R19 and R20 survive
// system calls.

#define ARGUMENTS \
	MOVD	0(R19), R8; \
	MOVD	8(R19), R0; \
	MOVD	16(R19), R1; \
	MOVD	24(R19), R2; \
	MOVD	32(R19), R3; \
	MOVD	40(R19), R4; \
	MOVD	48(R19), R5

// The lowest 32 bits of the number are that of the system call. If the number is negative, a new
// process or thread, to which the call returns 0, goes on at the address in the last argument. If the
// next lower bit is set, a call that fails is followed by the one at that address.
#define LOOP \
next: \
	ARGUMENTS; \
	MOVD	R5, R20; \
	MOVWU	R8, R8; \
	SVC; \
	CBNZ	R0, store; \
	MOVD	0(R19), R9; \
	TBZ	$63, R9, store; \
	MOVD	R20, R19; \
	B	next; \
store: \
	MOVD	R0, 56(R19); \
	ADD	$64, R19; \
	TBZ	$63, R0, next; \
	MOVD	-64(R19), R9; \
	TBZ	$62, R9, next; \
	MOVD	R20, R19; \
	B	next

// func startCall(c *call) uintptr
TEXT ·startCall(SB), NOSPLIT|NOFRAME, $0-16
	MOVD	c+0(FP), R19
	ARGUMENTS
	MOVD	R5, R20
	MOVWU	R8, R8
	SVC
	CBZ	R0, child
	MOVD	R0, ret+8(FP)
	RET
child:
	MOVD	R20, R19
	LOOP

// func resume()
TEXT ·resume(SB), NOSPLIT|NOFRAME, $0-0
	MOVD	$0x400178, R21 // headers and code are before
	MOVD	0(R21), R0
	MOVD	8(R21), R1
	MOVD	$3, R2 // PROT_READ|PROT_WRITE
	MOVD	$0x11, R3 // MAP_SHARED|MAP_FIXED
	MOVD	16(R21), R4
	MOVD	$0, R5
	MOVD	$222, R8 // mmap
	SVC
	MOVD	24(R21), R19
	LOOP

// func resumeCode() unsafe.Pointer
TEXT ·resumeCode(SB), NOSPLIT|NOFRAME, $0-8
	MOVD	$·resume(SB), R0
	MOVD	R0, ret+0(FP)
	RET
