//go:build !purego

#include "textflag.h"

// Products and sums are separate instructions, never fused ones: the bits are to
// be those of the Go twins.

// COLUMN adds a column of the eight rows of a block to a sum, and leaves the loop after the last column.
#define COLUMN(k, sum) \
	VMOVUPS      (32*k)(SI), Y8; \
	VBROADCASTSS (4*k)(R8), Y9; \
	VBROADCASTSS (4*k)(R9), Y10; \
	VSUBPS       Y9, Y8, Y8; \
	VMULPS       Y8, Y10, Y9; \
	VMULPS       Y8, Y9, Y9; \
	VADDPS       Y9, sum, sum; \
	DECQ         BX; \
	JZ           sums

// func distancesAVX2(dst, blocks *float32, count, stride int, z, weights *float32, columns int)
//
// SI is the place in a block, BX the columns that are left.
TEXT ·distancesAVX2(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ blocks+8(FP), R10
	MOVQ count+16(FP), CX
	MOVQ stride+24(FP), DX
	SHLQ $5, DX

block:
	MOVQ   R10, SI
	MOVQ   z+32(FP), R8
	MOVQ   weights+40(FP), R9
	MOVQ   columns+48(FP), BX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VXORPS Y4, Y4, Y4
	VXORPS Y5, Y5, Y5
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7

eight:
	COLUMN(0, Y0)
	COLUMN(1, Y1)
	COLUMN(2, Y2)
	COLUMN(3, Y3)
	COLUMN(4, Y4)
	COLUMN(5, Y5)
	COLUMN(6, Y6)
	COLUMN(7, Y7)
	ADDQ $256, SI
	ADDQ $32, R8
	ADDQ $32, R9
	JMP  eight

sums:
	VADDPS  Y1, Y0, Y0
	VADDPS  Y3, Y2, Y2
	VADDPS  Y5, Y4, Y4
	VADDPS  Y7, Y6, Y6
	VADDPS  Y2, Y0, Y0
	VADDPS  Y6, Y4, Y4
	VADDPS  Y4, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, DI
	ADDQ    DX, R10
	DECQ    CX
	JNZ     block
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

// func withinAVX2(distances *float32, n int, bound uint32) int
TEXT ·withinAVX2(SB), NOSPLIT, $0-32
	MOVQ         distances+0(FP), SI
	MOVQ         n+8(FP), CX
	MOVL         bound+16(FP), AX
	VMOVD        AX, X0
	VPBROADCASTD X0, Y0
	XORQ         AX, AX

lanes:
	VMOVDQU  (SI)(AX*4), Y1
	VMOVDQU  32(SI)(AX*4), Y2
	VPMINUD  Y0, Y1, Y3
	VPMINUD  Y0, Y2, Y4
	VPCMPEQD Y3, Y1, Y1
	VPCMPEQD Y4, Y2, Y2
	VPOR     Y2, Y1, Y1
	VPTEST   Y1, Y1
	JNZ      done
	ADDQ     $16, AX
	CMPQ     AX, CX
	JNE      lanes

done:
	MOVQ AX, ret+24(FP)
	VZEROUPPER
	RET
