//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// func addRowsAMD64(h *int64, rows *uint16, n int, packed *int64, first, second, third, fourth *uint8)
TEXT ·addRowsAMD64(SB), NOSPLIT, $0-64
	MOVQ h+0(FP), DI
	MOVQ rows+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ packed+24(FP), DX
	MOVQ first+32(FP), R8
	MOVQ second+40(FP), R9
	MOVQ third+48(FP), R10
	MOVQ fourth+56(FP), R11
	LEAQ (SI)(CX*2), CX

row:
	MOVWLZX (SI), AX
	MOVQ    (DX)(AX*8), BX
	MOVBLZX (R8)(AX*1), R12
	MOVBLZX (R9)(AX*1), R13
	ADDQ    BX, (DI)(R12*8)
	ADDQ    BX, 8(DI)(R13*8)
	MOVBLZX (R10)(AX*1), R12
	MOVBLZX (R11)(AX*1), R13
	ADDQ    BX, 16(DI)(R12*8)
	ADDQ    BX, 24(DI)(R13*8)
	ADDQ    $2, SI
	CMPQ    SI, CX
	JNE     row
	RET

// func partAMD64(rows *uint16, n int, room *uint16, codes *uint8, split uint8) (right int)
TEXT ·partAMD64(SB), NOSPLIT, $0-48
	MOVQ    rows+0(FP), SI
	MOVQ    n+8(FP), CX
	MOVQ    room+16(FP), DI
	MOVQ    codes+24(FP), R8
	MOVBLZX split+32(FP), DX
	LEAQ    (SI)(CX*2), CX
	MOVQ    SI, R9 // Where the next row goes that goes left.
	XORQ    R10, R10

row:
	MOVWLZX (SI), AX
	MOVBLZX (R8)(AX*1), BX
	MOVW    AX, (R9)
	MOVW    AX, (DI)(R10*2)
	XORL    R11, R11
	CMPL    DX, BX
	SETCS   R11           // 1 if the code is above the split.
	ADDQ    R11, R10
	ADDQ    $2, SI
	XORL    $1, R11
	LEAQ    (R9)(R11*2), R9
	CMPQ    SI, CX
	JNE     row
	MOVQ    R10, right+40(FP)
	RET

// func deriveAVX2(parent, counted *int64)
TEXT ·deriveAVX2(SB), NOSPLIT, $0-16
	MOVQ parent+0(FP), SI
	MOVQ counted+8(FP), DI
	XORQ AX, AX

next:
	VMOVDQU (SI)(AX*1), Y0
	VMOVDQU (DI)(AX*1), Y1
	VMOVDQU 32(SI)(AX*1), Y2
	VMOVDQU 32(DI)(AX*1), Y3
	VPSUBQ  Y1, Y0, Y0
	VPSUBQ  Y3, Y2, Y2
	VMOVDQU Y0, (SI)(AX*1)
	VMOVDQU Y2, 32(SI)(AX*1)
	ADDQ    $64, AX
	CMPQ    AX, $2048
	JNE     next
	VZEROUPPER
	RET

DATA best<>+0(SB)/8, $4 // The distance of two codes.
DATA best<>+8(SB)/8, $4
DATA best<>+16(SB)/8, $4
DATA best<>+24(SB)/8, $4
DATA best<>+32(SB)/8, $0x3fff             // The count of a bin.
DATA best<>+40(SB)/8, $0x4330000000000000 // 2⁵².
DATA best<>+48(SB)/8, $0x4000000000000000 // 2⁶², and the number 2: λ.
DATA best<>+56(SB)/8, $0x4331000000000000 // 2⁵² + 2⁴⁸.
DATA best<>+64(SB)/8, $0x432ffffffffffffc // 2⁵² − λ.
GLOBL best<>(SB), RODATA|NOPTR, $72

// A bin w = 2¹⁴ sum + count becomes two doubles: count + 2⁵² and, as |w| ≤ 2⁶²,
// (w + 2⁶²) >> 14 = sum + 2⁴⁸ in the mantissa of 2⁵².

// func bestAVX2(h *int64, edges int, sum, count, least float64, scores *float64, at *int64)
TEXT ·bestAVX2(SB), NOSPLIT, $0-56
	MOVQ         h+0(FP), SI
	VBROADCASTSD sum+16(FP), Y0
	VBROADCASTSD count+24(FP), Y1
	VBROADCASTSD least+32(FP), Y2
	MOVQ         scores+40(FP), R8
	MOVQ         at+48(FP), R9
	VBROADCASTSD best<>+32(SB), Y3
	VBROADCASTSD best<>+40(SB), Y4
	VBROADCASTSD best<>+48(SB), Y7 // Σ w + 2⁶².
	VBROADCASTSD best<>+56(SB), Y6
	VBROADCASTSD best<>+64(SB), Y5
	VADDPD       Y7, Y1, Y1        // n + λ.
	VADDPD       Y7, Y2, Y2        // The least n_l + λ.
	VADDPD       Y7, Y1, Y1        // n + 2λ.
	VPXOR        Y8, Y8, Y8    // Scores.
	VPXOR        Y9, Y9, Y9    // Their codes.
	VPXOR        Y10, Y10, Y10 // The code.
	MOVQ         edges+8(FP), CX

bin:
	VPADDQ    (SI), Y7, Y7
	VPAND     Y3, Y7, Y11
	VPSRLQ    $14, Y7, Y12
	VPOR      Y4, Y11, Y11
	VPOR      Y4, Y12, Y12
	VSUBPD    Y5, Y11, Y11          // n_l + λ.
	VSUBPD    Y6, Y12, Y12          // S_l.
	VSUBPD    Y11, Y1, Y13          // n_r + λ.
	VSUBPD    Y12, Y0, Y14          // S_r.
	VMINPD    Y11, Y13, Y15
	VMULPD    Y12, Y12, Y12
	VMULPD    Y14, Y14, Y14
	VMULPD    Y11, Y14, Y14         // S_r² (n_l + λ).
	VMULPD    Y13, Y12, Y12         // S_l² (n_r + λ).
	VADDPD    Y14, Y12, Y12
	VMULPD    Y13, Y11, Y11
	VDIVPD    Y11, Y12, Y12
	VCMPPD    $0x1d, Y2, Y15, Y15   // Both sides have enough rows.
	VCMPPD    $0x1e, Y8, Y12, Y11   // Better.
	VANDPD    Y11, Y15, Y15
	VBLENDVPD Y15, Y12, Y8, Y8
	VBLENDVPD Y15, Y10, Y9, Y9
	VPADDQ    best<>+0(SB), Y10, Y10
	ADDQ      $32, SI
	DECQ      CX
	JNZ       bin
	VMOVUPD   Y8, (R8)
	VMOVUPD   Y9, (R9)
	VZEROUPPER
	RET

DATA wide<>+0(SB)/8, $0 // The codes of two bins.
DATA wide<>+8(SB)/8, $0
DATA wide<>+16(SB)/8, $0
DATA wide<>+24(SB)/8, $0
DATA wide<>+32(SB)/8, $4
DATA wide<>+40(SB)/8, $4
DATA wide<>+48(SB)/8, $4
DATA wide<>+56(SB)/8, $4
DATA wide<>+64(SB)/8, $8 // Their distance from the next two.
GLOBL wide<>(SB), RODATA|NOPTR, $72

// func bestAVX512(h *int64, pairs int, sum, count, least float64, scores *float64, at *int64)
//
// The upper halves of registers have the second bin of a pair.
TEXT ·bestAVX512(SB), NOSPLIT, $0-56
	MOVQ         h+0(FP), SI
	MOVQ         pairs+8(FP), CX
	VBROADCASTSD sum+16(FP), Z0
	VBROADCASTSD count+24(FP), Z1
	VBROADCASTSD least+32(FP), Z2
	MOVQ         scores+40(FP), R8
	MOVQ         at+48(FP), R9
	VBROADCASTSD best<>+32(SB), Z3
	VBROADCASTSD best<>+40(SB), Z4
	VBROADCASTSD best<>+48(SB), Z7 // Σ w + 2⁶².
	VBROADCASTSD best<>+56(SB), Z6
	VBROADCASTSD best<>+64(SB), Z5
	VADDPD       Z7, Z1, Z1        // n + λ.
	VADDPD       Z7, Z2, Z2        // The least n_l + λ.
	VADDPD       Z7, Z1, Z1        // n + 2λ.
	VPXORQ       Z8, Z8, Z8        // Scores.
	VPXORQ       Z9, Z9, Z9        // Their codes.
	VMOVDQU64    wide<>+0(SB), Z10 // The codes.
	VPBROADCASTQ wide<>+64(SB), Z16
	VPXORQ       Z17, Z17, Z17

pair:
	VMOVDQU64  (SI), Z11
	VALIGNQ    $4, Z17, Z11, Z12
	VPADDQ     Z12, Z11, Z11
	VPADDQ     Z7, Z11, Z11
	VSHUFI64X2 $0xee, Z11, Z11, Z7
	VPSRLQ     $14, Z11, Z12
	VPANDQ     Z3, Z11, Z11
	VPORQ      Z4, Z11, Z11
	VPORQ      Z4, Z12, Z12
	VSUBPD     Z5, Z11, Z11       // n_l + λ.
	VSUBPD     Z6, Z12, Z12       // S_l.
	VSUBPD     Z11, Z1, Z13       // n_r + λ.
	VSUBPD     Z12, Z0, Z14       // S_r.
	VMINPD     Z11, Z13, Z15
	VMULPD     Z12, Z12, Z12
	VMULPD     Z14, Z14, Z14
	VMULPD     Z11, Z14, Z14      // S_r² (n_l + λ).
	VMULPD     Z13, Z12, Z12      // S_l² (n_r + λ).
	VADDPD     Z14, Z12, Z12
	VMULPD     Z13, Z11, Z11
	VDIVPD     Z11, Z12, Z12
	VCMPPD     $0x1d, Z2, Z15, K1     // Both sides have enough rows.
	VCMPPD     $0x1e, Z8, Z12, K1, K1 // Better.
	VMOVAPD    Z12, K1, Z8
	VMOVDQA64  Z10, K1, Z9
	VPADDQ     Z16, Z10, Z10
	ADDQ       $64, SI
	DECQ       CX
	JNZ        pair
	VMOVUPD    Z8, (R8)
	VMOVDQU64  Z9, (R9)
	VZEROUPPER
	RET

// LEAF takes 32 rows through a split: the mean of a code and the limit has its highest bit if the row goes
// right.
#define LEAF(at, limit, right, value) \
	VPAVGB    at(DX)(AX*1), limit, right; \
	VMOVDQU   at(SI)(BX*1), value; \
	VPBLENDVB right, 64+at(SI)(BX*1), value, value; \
	VMOVDQU   value, at(SI)(R9*1)

// func leavesAVX2(ids *uint8, values *int64, steps *leafStep, count int, codes *uint8, blocks int)
TEXT ·leavesAVX2(SB), NOSPLIT, $0-48
	MOVQ ids+0(FP), DI
	MOVQ values+8(FP), SI
	MOVQ steps+16(FP), R10
	MOVQ count+24(FP), R11
	MOVQ codes+32(FP), DX
	MOVQ blocks+40(FP), CX
	SHLQ $5, R11
	ADDQ R10, R11

rows:
	MOVQ R10, R8
	CMPQ R8, R11
	JEQ  done

split:
	MOVQ         (R8), AX
	VPBROADCASTB 8(R8), Y0
	MOVQ         16(R8), BX
	MOVQ         24(R8), R9
	LEAF(0, Y0, Y1, Y2)
	LEAF(32, Y0, Y3, Y4)
	ADDQ         $32, R8
	CMPQ         R8, R11
	JNE          split

done:
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	ADDQ    $64, DI
	ADDQ    $64, DX
	DECQ    CX
	JNZ     rows
	VZEROUPPER
	RET

// NEXT moves P to the next node of tree j, or leaves P at a leaf. R12 gathers the left children, 0 if all
// trees are at their leaves. The carry is 1 above the cut point. A leaf compares the first input.
#define NEXT(P, j) \
	MOVWLZX node_left(P), R13; \
	MOVWLZX node_input(P), R15; \
	MOVSS   node_cut(P), X0; \
	ORL     R13, R12; \
	XORL    R14, R14; \
	TESTL   R13, R13; \
	CMOVLEQ R14, R15; \
	MOVL    R13, R14; \
	UCOMISS (R10)(R15*4), X0; \
	ADCL    $0, R14; \
	MOVQ    (j*tree__size)(R11), R15; \
	LEAQ    (R15)(R14*8), R15; \
	TESTL   R13, R13; \
	CMOVQNE R15, P

// VALUE adds what leaf P says to R13.
#define VALUE(P) \
	MOVLQSX node_cut(P), R14; \
	MOVWLZX node_input(P), R15; \
	SHLQ    $16, R14; \
	ORQ     R15, R14; \
	ADDQ    R14, R13

// func sumTreesAMD64(trees *tree, row *float32) int64
TEXT ·sumTreesAMD64(SB), NOSPLIT, $8-24
	MOVQ trees+0(FP), R11
	MOVQ row+8(FP), R10
	MOVQ $0, ret+16(FP)
	MOVQ $(const_Trees/8), left-8(SP)

trees:
	MOVQ (0*tree__size)(R11), AX
	MOVQ (1*tree__size)(R11), BX
	MOVQ (2*tree__size)(R11), CX
	MOVQ (3*tree__size)(R11), DX
	MOVQ (4*tree__size)(R11), SI
	MOVQ (5*tree__size)(R11), DI
	MOVQ (6*tree__size)(R11), R8
	MOVQ (7*tree__size)(R11), R9

nodes:
	XORL R12, R12
	NEXT(AX, 0)
	NEXT(BX, 1)
	NEXT(CX, 2)
	NEXT(DX, 3)
	NEXT(SI, 4)
	NEXT(DI, 5)
	NEXT(R8, 6)
	NEXT(R9, 7)
	TESTL R12, R12
	JNE   nodes

	MOVQ ret+16(FP), R13
	VALUE(AX)
	VALUE(BX)
	VALUE(CX)
	VALUE(DX)
	VALUE(SI)
	VALUE(DI)
	VALUE(R8)
	VALUE(R9)
	MOVQ R13, ret+16(FP)
	ADDQ $(8*tree__size), R11
	DECQ left-8(SP)
	JNE  trees
	RET

// STEP moves P to the next node of the tree for row n, or leaves P at a leaf, as NEXT does.
#define STEP(P, n) \
	MOVWLZX node_left(P), R13; \
	MOVWLZX node_input(P), R15; \
	MOVSS   node_cut(P), X0; \
	ORL     R13, R12; \
	XORL    R14, R14; \
	TESTL   R13, R13; \
	CMOVLEQ R14, R15; \
	SHLL    $2, R15; \
	MOVL    R13, R14; \
	UCOMISS (4*n)(R10)(R15*8), X0; \
	ADCL    $0, R14; \
	LEAQ    (R11)(R14*8), R14; \
	TESTL   R13, R13; \
	CMOVQNE R14, P

// ADD adds what leaf P says to the sum of row n.
#define ADD(P, n) \
	MOVLQSX node_cut(P), R14; \
	MOVWLZX node_input(P), R15; \
	SHLQ    $16, R14; \
	ORQ     R15, R14; \
	ADDQ    R14, (8*n)(R13)

// func sumAbreastAMD64(trees *tree, rows *float32, sums *int64)
TEXT ·sumAbreastAMD64(SB), NOSPLIT, $8-24
	MOVQ rows+8(FP), R10
	MOVQ $const_Trees, left-8(SP)

tree:
	MOVQ trees+0(FP), R11
	MOVQ (R11), R11
	MOVQ R11, AX
	MOVQ R11, BX
	MOVQ R11, CX
	MOVQ R11, DX
	MOVQ R11, SI
	MOVQ R11, DI
	MOVQ R11, R8
	MOVQ R11, R9

step:
	XORL R12, R12
	STEP(AX, 0)
	STEP(BX, 1)
	STEP(CX, 2)
	STEP(DX, 3)
	STEP(SI, 4)
	STEP(DI, 5)
	STEP(R8, 6)
	STEP(R9, 7)
	TESTL R12, R12
	JNE   step

	MOVQ sums+16(FP), R13
	ADD(AX, 0)
	ADD(BX, 1)
	ADD(CX, 2)
	ADD(DX, 3)
	ADD(SI, 4)
	ADD(DI, 5)
	ADD(R8, 6)
	ADD(R9, 7)
	ADDQ $tree__size, trees+0(FP)
	DECQ left-8(SP)
	JNE  tree
	RET
