//go:build !purego

#include "textflag.h"

// Products and sums are separate instructions, never fused ones: the bits are to
// be those of the Go twins.

// ROW adds eight columns of a row to its sums.
#define ROW(row, sum) \
	VMOVUPS (row)(BX*1), Y4; \
	VSUBPS  Y8, Y4, Y4; \
	VMULPS  Y4, Y9, Y5; \
	VMULPS  Y4, Y5, Y5; \
	VADDPS  Y5, sum, sum

// func distancesAVX2(dst, rows *float32, n, stride int, z, weights *float32, columns int)
//
// R8 to R11 are four rows, BX is the place in them.
TEXT ·distancesAVX2(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ rows+8(FP), R8
	MOVQ n+16(FP), CX
	MOVQ stride+24(FP), DX
	MOVQ z+32(FP), R12
	MOVQ weights+40(FP), R13
	MOVQ columns+48(FP), R14
	SHLQ $2, DX
	SHLQ $2, R14

rows:
	LEAQ   (R8)(DX*1), R9
	LEAQ   (R9)(DX*1), R10
	LEAQ   (R10)(DX*1), R11
	XORQ   BX, BX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3

eight:
	VMOVUPS (R12)(BX*1), Y8
	VMOVUPS (R13)(BX*1), Y9
	ROW(R8, Y0)
	ROW(R9, Y1)
	ROW(R10, Y2)
	ROW(R11, Y3)
	ADDQ $32, BX
	CMPQ BX, R14
	JNE  eight

	VHADDPS      Y1, Y0, Y0
	VHADDPS      Y3, Y2, Y2
	VHADDPS      Y2, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPS       X1, X0, X0
	VMOVUPS      X0, (DI)
	ADDQ         $16, DI
	LEAQ         (R11)(DX*1), R8
	SUBQ         $4, CX
	JNZ          rows
	VZEROUPPER
	RET
