//go:build !purego

#include "textflag.h"

// Products and sums are separate instructions, never fused ones: the bits are equal to the bits of the
// Go twin.

// PRODUCT is a number at a place times entries v0 and v1 of all solutions.
#define PRODUCT(place, v0, v1) \
	VBROADCASTSD place, Y12; \
	VMULPD       Y12, v0, Y13; \
	VMULPD       Y12, v1, Y14

// TAKE takes a product out of Y4 and Y5, ADD adds it.
#define TAKE(place, v0, v1) \
	PRODUCT(place, v0, v1); \
	VSUBPD Y13, Y4, Y4; \
	VSUBPD Y14, Y5, Y5

#define ADD(place, v0, v1) \
	PRODUCT(place, v0, v1); \
	VADDPD Y13, Y4, Y4; \
	VADDPD Y14, Y5, Y5

// KNOWN divides entries v0 and v1 of all solutions by the number at a place, and adds their squares.
#define KNOWN(place, v0, v1) \
	VBROADCASTSD place, Y12; \
	VDIVPD       Y12, v0, v0; \
	VDIVPD       Y12, v1, v1; \
	VMULPD       v0, v0, Y13; \
	VMULPD       v1, v1, Y14; \
	VADDPD       Y13, Y8, Y8; \
	VADDPD       Y14, Y9, Y9

// BELOW is row i+1 as if it began in column i, from row i of so many entries.
#define BELOW(entries, above, row) \
	LEAQ 6(entries)(R13*1), row; \
	ANDQ $-8, row; \
	LEAQ (above)(row*8), row

// func substituteAbreastAVX2(z, data, priors, squares *float64, order, columns int)
//
// SI are the entries i of all solutions, DI row i, AX row i+1, R12 the entries of row i without the R13
// columns. Y0 and Y1 are the entries i of the solutions, Y2 and Y3 the entries i+1, Y8 and Y9 the
// sums of the squares. Two rows are taken out of the entries behind them in one pass, after the
// first row of an odd number of rows.
TEXT ·substituteAbreastAVX2(SB), NOSPLIT, $0-48
	MOVQ   z+0(FP), SI
	MOVQ   data+8(FP), DI
	MOVQ   priors+16(FP), BX
	MOVQ   order+32(FP), R12
	MOVQ   columns+40(FP), R13
	VXORPD Y8, Y8, Y8
	VXORPD Y9, Y9, Y9
	TESTQ  $1, R12
	JZ     pair

	VMOVUPD (SI), Y0
	VMOVUPD 32(SI), Y1
	KNOWN((DI), Y0, Y1)
	VMOVUPD Y0, (SI)
	VMOVUPD Y1, 32(SI)
	ADDQ    $64, SI
	BELOW(R12, DI, AX)
	ADDQ    $8, AX
	ADDQ    $8, DI
	MOVQ    SI, R9
	DECQ    R12
	MOVQ    R12, CX
	JZ      last

first:
	VMOVUPD (R9), Y4
	VMOVUPD 32(R9), Y5
	TAKE((DI), Y0, Y1)
	VMOVUPD Y4, (R9)
	VMOVUPD Y5, 32(R9)
	ADDQ    $8, DI
	ADDQ    $64, R9
	DECQ    CX
	JNZ     first

last:
	MOVQ BX, R9
	MOVQ R13, CX

label:
	VMOVUPD (R9), Y4
	VMOVUPD 32(R9), Y5
	ADD((DI), Y0, Y1)
	VMOVUPD Y4, (R9)
	VMOVUPD Y5, 32(R9)
	ADDQ    $8, DI
	ADDQ    $64, R9
	DECQ    CX
	JNZ     label
	MOVQ    AX, DI
	TESTQ   R12, R12
	JZ      done

pair:
	BELOW(R12, DI, AX)
	LEAQ    -1(R12), R8
	BELOW(R8, AX, R10)
	VMOVUPD (SI), Y0
	VMOVUPD 32(SI), Y1
	VMOVUPD 64(SI), Y4
	VMOVUPD 96(SI), Y5
	KNOWN((DI), Y0, Y1)
	TAKE(8(DI), Y0, Y1)
	VMOVAPD Y4, Y2
	VMOVAPD Y5, Y3
	KNOWN(8(AX), Y2, Y3)
	VMOVUPD Y0, (SI)
	VMOVUPD Y1, 32(SI)
	VMOVUPD Y2, 64(SI)
	VMOVUPD Y3, 96(SI)
	ADDQ    $128, SI
	ADDQ    $16, DI
	ADDQ    $16, AX
	ADDQ    $16, R10
	MOVQ    SI, R9
	SUBQ    $2, R12
	MOVQ    R12, CX
	JZ      labels

	PCALIGN $32

entry:
	VMOVUPD (R9), Y4
	VMOVUPD 32(R9), Y5
	TAKE((DI), Y0, Y1)
	TAKE((AX), Y2, Y3)
	VMOVUPD Y4, (R9)
	VMOVUPD Y5, 32(R9)
	ADDQ    $8, DI
	ADDQ    $8, AX
	ADDQ    $64, R9
	DECQ    CX
	JNZ     entry

labels:
	MOVQ BX, R9
	MOVQ R13, CX

both:
	VMOVUPD (R9), Y4
	VMOVUPD 32(R9), Y5
	ADD((DI), Y0, Y1)
	ADD((AX), Y2, Y3)
	VMOVUPD Y4, (R9)
	VMOVUPD Y5, 32(R9)
	ADDQ    $8, DI
	ADDQ    $8, AX
	ADDQ    $64, R9
	DECQ    CX
	JNZ     both
	MOVQ    R10, DI
	TESTQ   R12, R12
	JNZ     pair

done:
	MOVQ    squares+24(FP), DX
	VMOVUPD Y8, (DX)
	VMOVUPD Y9, 32(DX)
	VZEROUPPER
	RET
