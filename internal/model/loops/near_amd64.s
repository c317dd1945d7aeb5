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

// func minimaAVX2(least *uint32, distances *float32, count int)
TEXT ·minimaAVX2(SB), NOSPLIT, $0-24
	MOVQ least+0(FP), DI
	MOVQ distances+8(FP), SI
	MOVQ count+16(FP), CX
	VMOVDQU (DI), Y0
	VMOVDQU 32(DI), Y1
	VMOVDQU 64(DI), Y2
	VMOVDQU 96(DI), Y3
	VMOVDQU 128(DI), Y4
	VMOVDQU 160(DI), Y5
	VMOVDQU 192(DI), Y6
	VMOVDQU 224(DI), Y7
	VMOVDQU 256(DI), Y8
	VMOVDQU 288(DI), Y9
	VMOVDQU 320(DI), Y10
	VMOVDQU 352(DI), Y11
	VMOVDQU 384(DI), Y12
	VMOVDQU 416(DI), Y13
	VMOVDQU 448(DI), Y14
	VMOVDQU 480(DI), Y15

share:
	VPMINUD (SI), Y0, Y0
	VPMINUD 32(SI), Y1, Y1
	VPMINUD 64(SI), Y2, Y2
	VPMINUD 96(SI), Y3, Y3
	VPMINUD 128(SI), Y4, Y4
	VPMINUD 160(SI), Y5, Y5
	VPMINUD 192(SI), Y6, Y6
	VPMINUD 224(SI), Y7, Y7
	VPMINUD 256(SI), Y8, Y8
	VPMINUD 288(SI), Y9, Y9
	VPMINUD 320(SI), Y10, Y10
	VPMINUD 352(SI), Y11, Y11
	VPMINUD 384(SI), Y12, Y12
	VPMINUD 416(SI), Y13, Y13
	VPMINUD 448(SI), Y14, Y14
	VPMINUD 480(SI), Y15, Y15
	ADDQ    $512, SI
	DECQ    CX
	JNZ     share
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	VMOVDQU Y4, 128(DI)
	VMOVDQU Y5, 160(DI)
	VMOVDQU Y6, 192(DI)
	VMOVDQU Y7, 224(DI)
	VMOVDQU Y8, 256(DI)
	VMOVDQU Y9, 288(DI)
	VMOVDQU Y10, 320(DI)
	VMOVDQU Y11, 352(DI)
	VMOVDQU Y12, 384(DI)
	VMOVDQU Y13, 416(DI)
	VMOVDQU Y14, 448(DI)
	VMOVDQU Y15, 480(DI)
	VZEROUPPER
	RET
