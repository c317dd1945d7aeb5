//go:build !purego

#include "textflag.h"

// Products and sums are separate instructions, never fused ones, as in rows_amd64.s,
// and the entries that are no multiple of four or eight come first for the same reason.

// COSINES finds a register of c and one of g.
#define COSINES(root, inverse, square, c, g, bytes) \
	VMOVUPD (DI), square; \
	VDIVPD  8(DI), square, c; \
	VSQRTPD c, c; \
	VMOVUPD (DX), g; \
	VDIVPD  square, g, g; \
	VMULPD  c, g, g; \
	VMULPD  inverse, g, g; \
	VMULPD  root, c, c; \
	VMOVUPD c, (DI); \
	VMOVUPD g, (SI); \
	ADDQ    bytes, DI; \
	ADDQ    bytes, SI; \
	ADDQ    bytes, DX

// func cosinesAVX2(squares, gains, v *float64, n int, root, inverse float64, wide bool)
TEXT ·cosinesAVX2(SB), NOSPLIT, $0-49
	MOVQ         squares+0(FP), DI
	MOVQ         gains+8(FP), SI
	MOVQ         v+16(FP), DX
	MOVQ         n+24(FP), CX
	VBROADCASTSD root+32(FP), Y3
	VBROADCASTSD inverse+40(FP), Y4
	CMPB         wide+48(FP), $0
	JE           four
	VBROADCASTSD X3, Z3
	VBROADCASTSD X4, Z4
	SUBQ         $8, CX
	JL           rest

eight:
	COSINES(Z3, Z4, Z0, Z1, Z2, $64)
	SUBQ $8, CX
	JGE  eight

rest:
	ADDQ $8, CX
	JZ   done

four:
	COSINES(Y3, Y4, Y0, Y1, Y2, $32)
	SUBQ $4, CX
	JNZ  four

done:
	VZEROUPPER
	RET

// ENTRY turns one entry: X12 is w in its column.
#define ENTRY(entry, c, g, v) \
	VMOVSD entry, X13; \
	VMULSD c, X13, X14; \
	VMULSD g, X12, X15; \
	VADDSD X15, X14, X14; \
	VMULSD v, X13, X13; \
	VSUBSD X13, X12, X12; \
	VMOVSD X14, entry

// DIAGONAL turns an entry of the diagonal, which decreases by the root at BX at most.
#define DIAGONAL(row, c, g, copy) \
	VMOVSD (row), X13; \
	VMULSD c, X13, X14; \
	VMULSD g, X12, X15; \
	VMULSD (BX), X13, X13; \
	VADDSD X15, X14, X14; \
	VMAXSD X13, X14, X14; \
	VMOVSD X14, copy; \
	VMOVSD X14, (row)

// TURN turns a register of entries of a row: w is w in their columns.
#define TURN(row, c, g, v, w, own, turned, part) \
	VMOVUPD (row)(BX*8), own; \
	VMULPD  c, own, turned; \
	VMULPD  g, w, part; \
	VADDPD  part, turned, turned; \
	VMULPD  v, own, own; \
	VSUBPD  own, w, w; \
	VMOVUPD turned, (row)(BX*8)

#define PAIR(row, c, g, v) TURN(row, c, g, v, X12, X13, X14, X15)
#define FOUR(row, c, g, v) TURN(row, c, g, v, Y12, Y13, Y14, Y15)
#define EIGHT(row, c, g, v) TURN(row, c, g, v, Z12, Z13, Z14, Z15)

// BELOW is row n of a panel, from the row above.
#define BELOW(n, above, row) \
	LEAQ (7-n)(R11), row; \
	ANDQ $-8, row; \
	LEAQ 8(above)(row*8), row

// func absorbAVX2(data, row, c, gains, v, diagonal, right *float64, full, entries, columns int, root float64, wide bool)
//
// DI, SI, R8 and R9 are the rows of a panel, R10 is w. R11 is how many entries the first
// row has, R12 how many rows are left. CX is where the copies of the labels go, DX where
// those of the diagonal, R14 the columns.
TEXT ·absorbAVX2(SB), NOSPLIT, $0-89
	MOVQ data+0(FP), DI
	MOVQ row+8(FP), R10
	MOVQ c+16(FP), AX
	MOVQ gains+24(FP), R13
	MOVQ v+32(FP), R15
	MOVQ right+48(FP), CX
	MOVQ full+56(FP), R12
	MOVQ entries+64(FP), R11
	MOVQ columns+72(FP), R14

panel:
	BELOW(1, DI, SI)
	BELOW(2, SI, R8)
	BELOW(3, R8, R9)
	CMPB         wide+88(FP), $0
	JNE          broad
	VBROADCASTSD 0(AX), Y0
	VBROADCASTSD 8(AX), Y1
	VBROADCASTSD 16(AX), Y2
	VBROADCASTSD 24(AX), Y3
	VBROADCASTSD 0(R13), Y4
	VBROADCASTSD 8(R13), Y5
	VBROADCASTSD 16(R13), Y6
	VBROADCASTSD 24(R13), Y7
	VBROADCASTSD 0(R15), Y8
	VBROADCASTSD 8(R15), Y9
	VBROADCASTSD 16(R15), Y10
	VBROADCASTSD 24(R15), Y11
	JMP          corner

broad: // Y0 is the lower half of Z0.
	VBROADCASTSD 0(AX), Z0
	VBROADCASTSD 8(AX), Z1
	VBROADCASTSD 16(AX), Z2
	VBROADCASTSD 24(AX), Z3
	VBROADCASTSD 0(R13), Z4
	VBROADCASTSD 8(R13), Z5
	VBROADCASTSD 16(R13), Z6
	VBROADCASTSD 24(R13), Z7
	VBROADCASTSD 0(R15), Z8
	VBROADCASTSD 8(R15), Z9
	VBROADCASTSD 16(R15), Z10
	VBROADCASTSD 24(R15), Z11

corner:
	MOVQ   full+56(FP), DX
	SUBQ   R12, DX
	SHLQ   $3, DX
	ADDQ   diagonal+40(FP), DX
	LEAQ   root+80(FP), BX
	VMOVSD (R10), X12
	DIAGONAL(DI, X0, X4, (DX))
	VMOVSD 8(R10), X12
	ENTRY(8(DI), X0, X4, X8)
	DIAGONAL(SI, X1, X5, 8(DX))
	VMOVSD 16(R10), X12
	ENTRY(16(DI), X0, X4, X8)
	ENTRY(8(SI), X1, X5, X9)
	DIAGONAL(R8, X2, X6, 16(DX))
	VMOVSD 24(R10), X12
	ENTRY(24(DI), X0, X4, X8)
	ENTRY(16(SI), X1, X5, X9)
	ENTRY(8(R8), X2, X6, X10)
	DIAGONAL(R9, X3, X7, 24(DX))

	ADDQ $32, R10
	ADDQ $32, DI
	ADDQ $24, SI
	ADDQ $16, R8
	ADDQ $8, R9
	SUBQ $4, R11
	XORQ BX, BX

	TESTQ  $1, R11
	JZ     pair
	VMOVSD (R10)(BX*8), X12
	ENTRY((DI)(BX*8), X0, X4, X8)
	ENTRY((SI)(BX*8), X1, X5, X9)
	ENTRY((R8)(BX*8), X2, X6, X10)
	ENTRY((R9)(BX*8), X3, X7, X11)
	VMOVSD X12, (R10)(BX*8)
	INCQ   BX

pair:
	TESTQ   $2, R11
	JZ      fours
	VMOVUPD (R10)(BX*8), X12
	PAIR(DI, X0, X4, X8)
	PAIR(SI, X1, X5, X9)
	PAIR(R8, X2, X6, X10)
	PAIR(R9, X3, X7, X11)
	VMOVUPD X12, (R10)(BX*8)
	ADDQ    $2, BX

fours:
	LEAQ  (R9)(R11*8), DX // The next panel, about as many lines.
	CMPQ  BX, R11
	JGE   next
	CMPB  wide+88(FP), $0
	JE    four
	TESTQ $4, R11
	JZ    eight

four:
	VMOVUPD (R10)(BX*8), Y12
	FOUR(DI, Y0, Y4, Y8)
	FOUR(SI, Y1, Y5, Y9)
	FOUR(R8, Y2, Y6, Y10)
	FOUR(R9, Y3, Y7, Y11)
	VMOVUPD Y12, (R10)(BX*8)
	PREFETCHT0 (DX)
	PREFETCHT0 64(DX)
	ADDQ $128, DX
	ADDQ $4, BX
	CMPQ BX, R11
	JGE  next
	CMPB wide+88(FP), $0
	JE   four

eight:
	VMOVUPD (R10)(BX*8), Z12
	EIGHT(DI, Z0, Z4, Z8)
	EIGHT(SI, Z1, Z5, Z9)
	EIGHT(R8, Z2, Z6, Z10)
	EIGHT(R9, Z3, Z7, Z11)
	VMOVUPD Z12, (R10)(BX*8)
	PREFETCHT0 (DX)
	PREFETCHT0 64(DX)
	PREFETCHT0 128(DX)
	PREFETCHT0 192(DX)
	ADDQ $256, DX
	ADDQ $8, BX
	CMPQ BX, R11
	JLT  eight

next:
	MOVQ R11, BX
	SUBQ R14, BX

labels:
	VMOVSD (DI)(BX*8), X13
	VMOVSD X13, (CX)
	VMOVSD (SI)(BX*8), X13
	VMOVSD X13, (CX)(R14*8)
	LEAQ   (CX)(R14*8), DX
	VMOVSD (R8)(BX*8), X13
	VMOVSD X13, (DX)(R14*8)
	LEAQ   (DX)(R14*8), DX
	VMOVSD (R9)(BX*8), X13
	VMOVSD X13, (DX)(R14*8)
	ADDQ   $8, CX
	INCQ   BX
	CMPQ   BX, R11
	JLT    labels
	LEAQ   (DX)(R14*8), CX
	ADDQ   $8, CX

	// The last line of row i+4 ends with its R11 entries.
	LEAQ (R9)(R11*8), DI
	MOVQ R11, BX
	NEGQ BX
	ANDQ $7, BX
	LEAQ (DI)(BX*8), DI
	ADDQ $32, AX
	ADDQ $32, R13
	ADDQ $32, R15
	SUBQ $4, R12
	JNZ  panel
	VZEROUPPER
	RET
