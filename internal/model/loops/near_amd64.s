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

// BOTH is COLUMN of two blocks.
#define BOTH(k, sum) \
	VMOVUPS      (32*k)(SI), Y8; \
	VINSERTF32X8 $1, (32*k)(R11), Z8, Z8; \
	VSUBPS.BCST  (4*k)(R8), Z8, Z8; \
	VMULPS.BCST  (4*k)(R9), Z8, Z9; \
	VMULPS       Z8, Z9, Z9; \
	VADDPS       Z9, sum, sum; \
	DECQ         BX; \
	JZ           sums

// func distancesAVX512(dst, blocks *float32, count, stride int, z, weights *float32, columns int)
//
// SI and R11 are the places in two blocks, BX the columns that are left.
TEXT ·distancesAVX512(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ blocks+8(FP), R10
	MOVQ count+16(FP), CX
	MOVQ stride+24(FP), DX
	SHLQ $5, DX

blocks:
	MOVQ   R10, SI
	LEAQ   (R10)(DX*1), R11
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
	BOTH(0, Z0)
	BOTH(1, Z1)
	BOTH(2, Z2)
	BOTH(3, Z3)
	BOTH(4, Z4)
	BOTH(5, Z5)
	BOTH(6, Z6)
	BOTH(7, Z7)
	ADDQ $256, SI
	ADDQ $256, R11
	ADDQ $32, R8
	ADDQ $32, R9
	JMP  eight

sums:
	VADDPS  Z1, Z0, Z0
	VADDPS  Z3, Z2, Z2
	VADDPS  Z5, Z4, Z4
	VADDPS  Z7, Z6, Z6
	VADDPS  Z2, Z0, Z0
	VADDPS  Z6, Z4, Z4
	VADDPS  Z4, Z0, Z0
	VMOVUPS Z0, (DI)
	ADDQ    $64, DI
	LEAQ    (R10)(DX*2), R10
	SUBQ    $2, CX
	JNZ     blocks
	VZEROUPPER
	RET

// func reachAVX2(distances *float32, count, rows int) uint32
//
// The answer is built from its highest bit: a bit belongs to the answer if fewer than rows minima are less than
// the answer with it. DX is the answer, R8 the bit.
TEXT ·reachAVX2(SB), NOSPLIT, $512-28
	MOVQ     distances+0(FP), SI
	MOVQ     count+8(FP), CX
	MOVQ     rows+16(FP), R9
	VPCMPEQD Y0, Y0, Y0
	VPSRLD   $1, Y0, Y0
	VMOVDQA  Y0, Y1
	VMOVDQA  Y0, Y2
	VMOVDQA  Y0, Y3
	VMOVDQA  Y0, Y4
	VMOVDQA  Y0, Y5
	VMOVDQA  Y0, Y6
	VMOVDQA  Y0, Y7
	VMOVDQA  Y0, Y8
	VMOVDQA  Y0, Y9
	VMOVDQA  Y0, Y10
	VMOVDQA  Y0, Y11
	VMOVDQA  Y0, Y12
	VMOVDQA  Y0, Y13
	VMOVDQA  Y0, Y14
	VMOVDQA  Y0, Y15

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
	VMOVDQU  Y0, minima-512(SP)
	VMOVDQU  Y1, minima-480(SP)
	VMOVDQU  Y2, minima-448(SP)
	VMOVDQU  Y3, minima-416(SP)
	VMOVDQU  Y4, minima-384(SP)
	VMOVDQU  Y5, minima-352(SP)
	VMOVDQU  Y6, minima-320(SP)
	VMOVDQU  Y7, minima-288(SP)
	VMOVDQU  Y8, minima-256(SP)
	VMOVDQU  Y9, minima-224(SP)
	VMOVDQU  Y10, minima-192(SP)
	VMOVDQU  Y11, minima-160(SP)
	VMOVDQU  Y12, minima-128(SP)
	VMOVDQU  Y13, minima-96(SP)
	VMOVDQU  Y14, minima-64(SP)
	VMOVDQU  Y15, minima-32(SP)
	LEAQ     minima-512(SP), SI
	XORL     DX, DX
	MOVL     $0x40000000, R8

bit:
	LEAL         (DX)(R8*1), AX
	VMOVD        AX, X0
	VPBROADCASTD X0, Y0
	VPXOR        Y1, Y1, Y1
	VPXOR        Y2, Y2, Y2
	XORQ         BX, BX

minima:
	VPCMPGTD (SI)(BX*1), Y0, Y3
	VPCMPGTD 32(SI)(BX*1), Y0, Y4
	VPCMPGTD 64(SI)(BX*1), Y0, Y5
	VPCMPGTD 96(SI)(BX*1), Y0, Y6
	VPADDD   Y4, Y3, Y3
	VPADDD   Y6, Y5, Y5
	VPADDD   Y3, Y1, Y1
	VPADDD   Y5, Y2, Y2
	SUBQ     $-128, BX
	CMPQ     BX, $512
	JNE      minima

	VPADDD       Y2, Y1, Y1
	VEXTRACTI128 $1, Y1, X2
	VPADDD       X2, X1, X1
	VPSHUFD      $0x4e, X1, X2
	VPADDD       X2, X1, X1
	VPSHUFD      $0xb1, X1, X2
	VPADDD       X2, X1, X1
	VMOVD        X1, CX
	NEGL         CX               // The minima that are less.
	CMPL         CX, R9
	CMOVLLT      AX, DX
	SHRL         $1, R8
	JNZ          bit
	MOVL         DX, ret+24(FP)
	VZEROUPPER
	RET

// func collectAVX2(keys *uint64, room int, distances *float32, n, last int, bound uint32) (found, looked int)
TEXT ·collectAVX2(SB), NOSPLIT, $0-64
	MOVQ         keys+0(FP), DI
	MOVQ         room+8(FP), DX
	MOVQ         distances+16(FP), SI
	MOVQ         n+24(FP), CX
	MOVQ         last+32(FP), R12
	MOVL         bound+40(FP), AX
	VMOVD        AX, X0
	VPBROADCASTD X0, Y0
	XORQ         AX, AX
	LEAQ         -128(DI)(DX*8), DX // The last place that leaves room for all of the lanes.

lanes:
	VMOVDQU   (SI)(AX*4), Y1
	VMOVDQU   32(SI)(AX*4), Y2
	VPMINUD   Y0, Y1, Y3
	VPMINUD   Y0, Y2, Y4
	VPCMPEQD  Y3, Y1, Y1
	VPCMPEQD  Y4, Y2, Y2
	VPACKSSDW Y2, Y1, Y1
	VPERMQ    $0xd8, Y1, Y1
	VPACKSSWB Y1, Y1, Y1
	VPERMQ    $0xd8, Y1, Y1
	VPMOVMSKB X1, BX
	TESTL     BX, BX
	JZ        next

lane:
	BSFL  BX, R8
	ADDQ  AX, R8
	MOVL  (SI)(R8*4), R9
	SHLQ  $32, R9
	MOVQ  R12, R10
	SUBQ  R8, R10
	ORQ   R10, R9
	MOVQ  R9, (DI)
	ADDQ  $8, DI
	LEAL  -1(BX), R8
	ANDL  R8, BX
	JNZ   lane
	CMPQ  DI, DX
	JHI   full

next:
	ADDQ $16, AX
	CMPQ AX, CX
	JNE  lanes
	JMP  done

full:
	ADDQ $16, AX

done:
	SUBQ keys+0(FP), DI
	SHRQ $3, DI
	MOVQ DI, found+48(FP)
	MOVQ AX, looked+56(FP)
	VZEROUPPER
	RET

DATA places<>+0(SB)/8, $0
DATA places<>+8(SB)/8, $1
DATA places<>+16(SB)/8, $2
DATA places<>+24(SB)/8, $3
DATA places<>+32(SB)/8, $4
DATA places<>+40(SB)/8, $5
DATA places<>+48(SB)/8, $6
DATA places<>+56(SB)/8, $7
DATA places<>+64(SB)/8, $8 // The places of a register.
GLOBL places<>(SB), RODATA|NOPTR, $72

// func collectAVX512(keys *uint64, room int, distances *float32, n, last int, bound uint32) (found, looked int)
//
// Z0 is the largest key within the bound, Z1 are the places from the end.
TEXT ·collectAVX512(SB), NOSPLIT, $0-64
	MOVQ         keys+0(FP), DI
	MOVQ         room+8(FP), DX
	MOVQ         distances+16(FP), SI
	MOVQ         n+24(FP), CX
	MOVL         bound+40(FP), AX
	SHLQ         $32, AX
	DECQ         AX
	MOVQ         $0x100000000, BX
	ADDQ         BX, AX
	VPBROADCASTQ AX, Z0
	VPBROADCASTQ last+32(FP), Z1
	VPSUBQ       places<>+0(SB), Z1, Z1
	VPBROADCASTQ places<>+64(SB), Z5
	XORQ         AX, AX
	LEAQ         -128(DI)(DX*8), DX // The last place that leaves room for the keys of two registers.

lanes:
	VPMOVZXDQ     (SI)(AX*4), Z2
	VPSLLQ        $32, Z2, Z2
	VPORQ         Z1, Z2, Z2
	VPSUBQ        Z5, Z1, Z1
	VPCMPUQ       $2, Z0, Z2, K1
	VPCOMPRESSQ.Z Z2, K1, Z3
	VMOVDQU64     Z3, (DI)
	KMOVB         K1, BX
	POPCNTL       BX, BX
	LEAQ          (DI)(BX*8), DI
	ADDQ          $8, AX
	CMPQ          DI, DX
	JHI           done
	CMPQ          AX, CX
	JNE           lanes

done:
	SUBQ keys+0(FP), DI
	SHRQ $3, DI
	MOVQ DI, found+48(FP)
	MOVQ AX, looked+56(FP)
	VZEROUPPER
	RET

// func orderAVX2(dst, keys *uint64, n int)
//
// The place of a key is the number of keys below it.
TEXT ·orderAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ keys+8(FP), SI
	MOVQ n+16(FP), CX
	LEAQ (SI)(CX*8), R8
	MOVQ SI, DX

key:
	VPBROADCASTQ (DX), Y0
	VPXOR        Y1, Y1, Y1
	VPXOR        Y2, Y2, Y2
	MOVQ         SI, BX

keys:
	VPCMPGTQ (BX), Y0, Y3
	VPCMPGTQ 32(BX), Y0, Y4
	VPADDQ   Y3, Y1, Y1
	VPADDQ   Y4, Y2, Y2
	ADDQ     $64, BX
	CMPQ     BX, R8
	JCS      keys

	VPADDQ       Y2, Y1, Y1
	VEXTRACTI128 $1, Y1, X2
	VPADDQ       X2, X1, X1
	VPSHUFD      $0x4e, X1, X2
	VPADDQ       X2, X1, X1
	VMOVQ        X1, AX
	NEGQ         AX
	VMOVQ        X0, (DI)(AX*8)
	ADDQ         $8, DX
	CMPQ         DX, R8
	JNE          key
	VZEROUPPER
	RET
