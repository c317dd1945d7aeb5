//go:build !purego

#include "textflag.h"

// Products and sums are separate instructions, never fused ones: the bits are to
// be those of the Go twins.

DATA integral<>+0(SB)/8, $0x4338000000000000
GLOBL integral<>(SB), RODATA|NOPTR, $8
DATA highest<>+0(SB)/8, $0x41dfffffffc00000
GLOBL highest<>(SB), RODATA|NOPTR, $8
DATA lowest<>+0(SB)/8, $0xc1dfffffffc00000
GLOBL lowest<>(SB), RODATA|NOPTR, $8

// func cellsAVX2(hashes *uint64, z, scales, shifts *float64, keys *uint64, grids, inputs int)
//
// BX is the place of four grids in a row of the tables, DX the place in row j. A key is
// multiplied by an integer of 32 bits in two halves.
TEXT ·cellsAVX2(SB), NOSPLIT, $0-56
	MOVQ         hashes+0(FP), DI
	MOVQ         scales+16(FP), R8
	MOVQ         shifts+24(FP), R9
	MOVQ         keys+32(FP), R10
	MOVQ         grids+40(FP), R11
	SHLQ         $3, R11
	VBROADCASTSD integral<>(SB), Y15
	VBROADCASTSD highest<>(SB), Y14
	VBROADCASTSD lowest<>(SB), Y13
	XORQ         BX, BX

four:
	MOVQ  z+8(FP), SI
	MOVQ  inputs+48(FP), CX
	MOVQ  BX, DX
	VPXOR Y0, Y0, Y0

input:
	VBROADCASTSD (SI), Y1
	VMULPD       (R8)(DX*1), Y1, Y1
	VADDPD       (R9)(DX*1), Y1, Y1
	VROUNDPD     $9, Y1, Y1
	VMINPD       Y14, Y1, Y1
	VMAXPD       Y13, Y1, Y1
	VADDPD       Y15, Y1, Y1
	VMOVDQU      (R10)(DX*1), Y2
	VPMULUDQ     Y1, Y2, Y3
	VPSRLQ       $32, Y2, Y2
	VPMULUDQ     Y1, Y2, Y2
	VPSLLQ       $32, Y2, Y2
	VPADDQ       Y3, Y0, Y0
	VPADDQ       Y2, Y0, Y0
	ADDQ         $8, SI
	ADDQ         R11, DX
	DECQ         CX
	JNZ          input
	VMOVDQU      Y0, (DI)(BX*1)
	ADDQ         $32, BX
	CMPQ         BX, R11
	JNE          four
	VZEROUPPER
	RET

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
