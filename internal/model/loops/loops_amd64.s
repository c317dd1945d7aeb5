//go:build !purego

#include "textflag.h"

// Products and sums are separate instructions, never fused ones: the bits are to
// be those of the Go twins.

// The rotation and axpy take the entries that are no multiple of four first. A
// factor's rows end at one column and begin at another each: so the fours of a row
// are those of the row before, and what one has stored the next can load without
// waiting for the cache.

// func rotateAVX2(a, b *float64, n int, ca, sa, c, s float64)
TEXT ·rotateAVX2(SB), NOSPLIT, $0-56
	MOVQ         a+0(FP), DI
	MOVQ         b+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSD ca+24(FP), Y0
	VBROADCASTSD sa+32(FP), Y1
	VBROADCASTSD c+40(FP), Y2
	VBROADCASTSD s+48(FP), Y3
	TESTQ        $1, CX
	JZ           two
	VMOVSD       (DI), X4
	VMOVSD       (SI), X5
	VMULSD       X0, X4, X6
	VMULSD       X3, X5, X7
	VMULSD       X2, X5, X8
	VMULSD       X1, X4, X9
	VADDSD       X7, X6, X6
	VSUBSD       X9, X8, X8
	VMOVSD       X6, (DI)
	VMOVSD       X8, (SI)
	ADDQ         $8, DI
	ADDQ         $8, SI

two:
	TESTQ   $2, CX
	JZ      fours
	VMOVUPD (DI), X4
	VMOVUPD (SI), X5
	VMULPD  X0, X4, X6
	VMULPD  X3, X5, X7
	VMULPD  X2, X5, X8
	VMULPD  X1, X4, X9
	VADDPD  X7, X6, X6
	VSUBPD  X9, X8, X8
	VMOVUPD X6, (DI)
	VMOVUPD X8, (SI)
	ADDQ    $16, DI
	ADDQ    $16, SI

fours:
	ANDQ $-4, CX
	SUBQ $8, CX
	JL   four

eight:
	VMOVUPD (DI), Y4
	VMOVUPD (SI), Y5
	VMOVUPD 32(DI), Y10
	VMOVUPD 32(SI), Y11
	VMULPD  Y0, Y4, Y6
	VMULPD  Y3, Y5, Y7
	VMULPD  Y2, Y5, Y8
	VMULPD  Y1, Y4, Y9
	VMULPD  Y0, Y10, Y12
	VMULPD  Y3, Y11, Y13
	VMULPD  Y2, Y11, Y14
	VMULPD  Y1, Y10, Y15
	VADDPD  Y7, Y6, Y6
	VSUBPD  Y9, Y8, Y8
	VADDPD  Y13, Y12, Y12
	VSUBPD  Y15, Y14, Y14
	VMOVUPD Y6, (DI)
	VMOVUPD Y8, (SI)
	VMOVUPD Y12, 32(DI)
	VMOVUPD Y14, 32(SI)
	ADDQ    $64, DI
	ADDQ    $64, SI
	SUBQ    $8, CX
	JGE     eight

four:
	ADDQ    $8, CX
	JZ      done
	VMOVUPD (DI), Y4
	VMOVUPD (SI), Y5
	VMULPD  Y0, Y4, Y6
	VMULPD  Y3, Y5, Y7
	VMULPD  Y2, Y5, Y8
	VMULPD  Y1, Y4, Y9
	VADDPD  Y7, Y6, Y6
	VSUBPD  Y9, Y8, Y8
	VMOVUPD Y6, (DI)
	VMOVUPD Y8, (SI)

done:
	VZEROUPPER
	RET

// func axpyAVX2(y, x *float64, n int, a float64)
TEXT ·axpyAVX2(SB), NOSPLIT, $0-32
	MOVQ         y+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSD a+24(FP), Y0
	TESTQ        $1, CX
	JZ           two
	VMULSD       (SI), X0, X1
	VADDSD       (DI), X1, X1
	VMOVSD       X1, (DI)
	ADDQ         $8, DI
	ADDQ         $8, SI

two:
	TESTQ   $2, CX
	JZ      fours
	VMULPD  (SI), X0, X1
	VADDPD  (DI), X1, X1
	VMOVUPD X1, (DI)
	ADDQ    $16, DI
	ADDQ    $16, SI

fours:
	ANDQ $-4, CX
	SUBQ $16, CX
	JL   rest

sixteen:
	VMULPD  (SI), Y0, Y1
	VMULPD  32(SI), Y0, Y2
	VMULPD  64(SI), Y0, Y3
	VMULPD  96(SI), Y0, Y4
	VADDPD  (DI), Y1, Y1
	VADDPD  32(DI), Y2, Y2
	VADDPD  64(DI), Y3, Y3
	VADDPD  96(DI), Y4, Y4
	VMOVUPD Y1, (DI)
	VMOVUPD Y2, 32(DI)
	VMOVUPD Y3, 64(DI)
	VMOVUPD Y4, 96(DI)
	ADDQ    $128, DI
	ADDQ    $128, SI
	SUBQ    $16, CX
	JGE     sixteen

rest:
	ADDQ $16, CX
	JZ   end

four:
	VMULPD  (SI), Y0, Y1
	VADDPD  (DI), Y1, Y1
	VMOVUPD Y1, (DI)
	ADDQ    $32, DI
	ADDQ    $32, SI
	SUBQ    $4, CX
	JG      four

end:
	VZEROUPPER
	RET

// func dotAVX2(x, y *float64, n int) float64
TEXT ·dotAVX2(SB), NOSPLIT, $0-32
	MOVQ   x+0(FP), SI
	MOVQ   y+8(FP), DI
	MOVQ   n+16(FP), CX
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	SUBQ   $8, CX
	JL     four

eight:
	VMOVUPD (SI), Y2
	VMOVUPD 32(SI), Y3
	VMULPD  (DI), Y2, Y2
	VMULPD  32(DI), Y3, Y3
	VADDPD  Y2, Y0, Y0
	VADDPD  Y3, Y1, Y1
	ADDQ    $64, SI
	ADDQ    $64, DI
	SUBQ    $8, CX
	JGE     eight

four:
	ADDQ    $8, CX
	JZ      sum
	VMOVUPD (SI), Y2
	VMULPD  (DI), Y2, Y2
	VADDPD  Y2, Y0, Y0

sum:
	// Parts 0-3 plus parts 4-7, then the even ones plus the odd ones.
	VADDPD       Y1, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPD       X1, X0, X0
	VUNPCKHPD    X0, X0, X1
	VADDSD       X1, X0, X0
	VMOVSD       X0, ret+24(FP)
	VZEROUPPER
	RET

// func scaleAVX2(x *float64, n int, by float64)
TEXT ·scaleAVX2(SB), NOSPLIT, $0-24
	MOVQ         x+0(FP), DI
	MOVQ         n+8(FP), CX
	VBROADCASTSD by+16(FP), Y0

four:
	VMULPD  (DI), Y0, Y1
	VMOVUPD Y1, (DI)
	ADDQ    $32, DI
	SUBQ    $4, CX
	JG      four
	VZEROUPPER
	RET

// func combineAVX2(y, columns, x *float64, n, stride, d int)
TEXT ·combineAVX2(SB), NOSPLIT, $0-48
	MOVQ y+0(FP), DI
	MOVQ columns+8(FP), SI
	MOVQ n+24(FP), CX
	MOVQ stride+32(FP), R8
	SHLQ $3, R8
	SUBQ $16, CX
	JL   rest

sixteen:
	MOVQ   x+16(FP), DX
	MOVQ   d+40(FP), BX
	MOVQ   SI, R9
	VXORPD Y0, Y0, Y0
	VXORPD Y1, Y1, Y1
	VXORPD Y2, Y2, Y2
	VXORPD Y3, Y3, Y3

column:
	VBROADCASTSD (DX), Y4
	VMULPD       (R9), Y4, Y5
	VMULPD       32(R9), Y4, Y6
	VMULPD       64(R9), Y4, Y7
	VMULPD       96(R9), Y4, Y8
	VADDPD       Y5, Y0, Y0
	VADDPD       Y6, Y1, Y1
	VADDPD       Y7, Y2, Y2
	VADDPD       Y8, Y3, Y3
	ADDQ         $8, DX
	ADDQ         R8, R9
	DECQ         BX
	JNZ          column
	VMOVUPD      Y0, (DI)
	VMOVUPD      Y1, 32(DI)
	VMOVUPD      Y2, 64(DI)
	VMOVUPD      Y3, 96(DI)
	ADDQ         $128, DI
	ADDQ         $128, SI
	SUBQ         $16, CX
	JGE          sixteen

rest:
	ADDQ $16, CX
	JZ   end

four:
	MOVQ   x+16(FP), DX
	MOVQ   d+40(FP), BX
	MOVQ   SI, R9
	VXORPD Y0, Y0, Y0

one:
	VBROADCASTSD (DX), Y4
	VMULPD       (R9), Y4, Y5
	VADDPD       Y5, Y0, Y0
	ADDQ         $8, DX
	ADDQ         R8, R9
	DECQ         BX
	JNZ          one
	VMOVUPD      Y0, (DI)
	ADDQ         $32, DI
	ADDQ         $32, SI
	SUBQ         $4, CX
	JG           four

end:
	VZEROUPPER
	RET

// func descendAVX2(theta, z *float64, n int, shrink, slope float64) float64
TEXT ·descendAVX2(SB), NOSPLIT, $0-48
	MOVQ         theta+0(FP), DI
	MOVQ         z+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSD shrink+24(FP), Y14
	VBROADCASTSD slope+32(FP), Y15
	VXORPD       Y0, Y0, Y0
	VXORPD       Y1, Y1, Y1
	SUBQ         $8, CX
	JL           four

eight:
	VMOVUPD (DI), Y2
	VMOVUPD 32(DI), Y3
	VMULPD  (SI), Y15, Y4
	VMULPD  32(SI), Y15, Y5
	VMULPD  Y2, Y14, Y6
	VMULPD  Y3, Y14, Y7
	VMULPD  Y2, Y2, Y8
	VMULPD  Y3, Y3, Y9
	VSUBPD  Y4, Y6, Y6
	VSUBPD  Y5, Y7, Y7
	VADDPD  Y8, Y0, Y0
	VADDPD  Y9, Y1, Y1
	VMOVUPD Y6, (DI)
	VMOVUPD Y7, 32(DI)
	ADDQ    $64, SI
	ADDQ    $64, DI
	SUBQ    $8, CX
	JGE     eight

four:
	ADDQ    $8, CX
	JZ      sum
	VMOVUPD (DI), Y2
	VMULPD  (SI), Y15, Y4
	VMULPD  Y2, Y14, Y6
	VMULPD  Y2, Y2, Y8
	VSUBPD  Y4, Y6, Y6
	VADDPD  Y8, Y0, Y0
	VMOVUPD Y6, (DI)

sum:
	// As dotAVX2 adds up.
	VADDPD       Y1, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPD       X1, X0, X0
	VUNPCKHPD    X0, X0, X1
	VADDSD       X1, X0, X0
	VMOVSD       X0, ret+40(FP)
	VZEROUPPER
	RET

DATA mask<>+0(SB)/8, $-1
DATA mask<>+8(SB)/8, $-1
DATA mask<>+16(SB)/8, $-1
DATA mask<>+24(SB)/8, $0
DATA mask<>+32(SB)/8, $0
DATA mask<>+40(SB)/8, $0
GLOBL mask<>(SB), RODATA|NOPTR, $48

// COEFFICIENT is w_n z_ni.
#define COEFFICIENT(z, w, x, y) \
	VMOVSD       z, x;    \
	VMULSD       w, x, x; \
	VBROADCASTSD x, y

// SIXTEEN adds a row to sixteen entries, FOUR to four, LAST to those in Y5.
#define SIXTEEN(z0, z1, z2, z3, c) \
	VMULPD z0, c, Y4;  \
	VMULPD z1, c, Y5;  \
	VMULPD z2, c, Y6;  \
	VMULPD z3, c, Y7;  \
	VADDPD Y4, Y0, Y0; \
	VADDPD Y5, Y1, Y1; \
	VADDPD Y6, Y2, Y2; \
	VADDPD Y7, Y3, Y3

#define FOUR(z, c) \
	VMULPD z, c, Y4; \
	VADDPD Y4, Y0, Y0

#define LAST(z, c) \
	VMASKMOVPD z, Y5, Y4; \
	VMULPD     Y4, c, Y4; \
	VADDPD     Y4, Y0, Y0

// func addSquaresAVX2(packed, rows *float64, stride, order int, weights *float64)
TEXT ·addSquaresAVX2(SB), NOSPLIT, $0-40
	MOVQ packed+0(FP), DI
	MOVQ rows+8(FP), AX
	MOVQ stride+16(FP), R8
	MOVQ order+24(FP), DX
	MOVQ weights+32(FP), R10
	SHLQ $3, R8
	LEAQ (R8)(R8*2), R9
	LEAQ mask<>(SB), R11

row:
	// SI and BX are z_0 and z_4 from entry i on.
	MOVQ        AX, SI
	LEAQ        (AX)(R8*4), BX
	COEFFICIENT((SI), (R10), X8, Y8)
	COEFFICIENT((SI)(R8*1), 8(R10), X9, Y9)
	COEFFICIENT((SI)(R8*2), 16(R10), X10, Y10)
	COEFFICIENT((SI)(R9*1), 24(R10), X11, Y11)
	COEFFICIENT((BX), 32(R10), X12, Y12)
	COEFFICIENT((BX)(R8*1), 40(R10), X13, Y13)
	COEFFICIENT((BX)(R8*2), 48(R10), X14, Y14)
	COEFFICIENT((BX)(R9*1), 56(R10), X15, Y15)
	MOVQ        DX, CX
	SUBQ        $16, CX
	JL          rest

sixteen:
	VMOVUPD (DI), Y0
	VMOVUPD 32(DI), Y1
	VMOVUPD 64(DI), Y2
	VMOVUPD 96(DI), Y3
	SIXTEEN((SI), 32(SI), 64(SI), 96(SI), Y8)
	SIXTEEN((SI)(R8*1), 32(SI)(R8*1), 64(SI)(R8*1), 96(SI)(R8*1), Y9)
	SIXTEEN((SI)(R8*2), 32(SI)(R8*2), 64(SI)(R8*2), 96(SI)(R8*2), Y10)
	SIXTEEN((SI)(R9*1), 32(SI)(R9*1), 64(SI)(R9*1), 96(SI)(R9*1), Y11)
	SIXTEEN((BX), 32(BX), 64(BX), 96(BX), Y12)
	SIXTEEN((BX)(R8*1), 32(BX)(R8*1), 64(BX)(R8*1), 96(BX)(R8*1), Y13)
	SIXTEEN((BX)(R8*2), 32(BX)(R8*2), 64(BX)(R8*2), 96(BX)(R8*2), Y14)
	SIXTEEN((BX)(R9*1), 32(BX)(R9*1), 64(BX)(R9*1), 96(BX)(R9*1), Y15)
	VMOVUPD Y0, (DI)
	VMOVUPD Y1, 32(DI)
	VMOVUPD Y2, 64(DI)
	VMOVUPD Y3, 96(DI)
	ADDQ    $128, DI
	ADDQ    $128, SI
	ADDQ    $128, BX
	SUBQ    $16, CX
	JGE     sixteen

rest:
	ADDQ $12, CX
	JL   last

four:
	VMOVUPD (DI), Y0
	FOUR((SI), Y8)
	FOUR((SI)(R8*1), Y9)
	FOUR((SI)(R8*2), Y10)
	FOUR((SI)(R9*1), Y11)
	FOUR((BX), Y12)
	FOUR((BX)(R8*1), Y13)
	FOUR((BX)(R8*2), Y14)
	FOUR((BX)(R9*1), Y15)
	VMOVUPD Y0, (DI)
	ADDQ    $32, DI
	ADDQ    $32, SI
	ADDQ    $32, BX
	SUBQ    $4, CX
	JGE     four

last:
	ADDQ       $4, CX
	JZ         next
	NEGQ       CX
	VMOVUPD    24(R11)(CX*8), Y5 // As many ones as there are entries left.
	NEGQ       CX
	VMASKMOVPD (DI), Y5, Y0
	LAST((SI), Y8)
	LAST((SI)(R8*1), Y9)
	LAST((SI)(R8*2), Y10)
	LAST((SI)(R9*1), Y11)
	LAST((BX), Y12)
	LAST((BX)(R8*1), Y13)
	LAST((BX)(R8*2), Y14)
	LAST((BX)(R9*1), Y15)
	VMASKMOVPD Y0, Y5, (DI)
	LEAQ       (DI)(CX*8), DI

next:
	ADDQ $8, AX
	DECQ DX
	JNZ  row
	VZEROUPPER
	RET
