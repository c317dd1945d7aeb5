//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// Products and sums are separate instructions, never fused ones: the bits are to
// be those of the Go twins.

// TURN turns a, which holds entries of the row of the factor, with the same entries of another
// row, which b gets. Every lane of c and s holds the same number.
#define TURN(move, mul, add, sub, row, c, s, a, b, p, q) \
	move row, b;  \
	mul  s, b, p; \
	mul  s, a, q; \
	mul  c, b, b; \
	mul  c, a, a; \
	add  p, a, a; \
	sub  q, b, b

// TURNS turns the entries at byte AX with the four rows in order.
#define TURNS(move, mul, add, sub, c0, s0, c1, s1, c2, s2, c3, s3, a, b, p, q) \
	move (DI)(AX*1), a; \
	TURN(move, mul, add, sub, (SI)(AX*1), c0, s0, a, b, p, q); \
	move b, (SI)(AX*1); \
	TURN(move, mul, add, sub, (R8)(AX*1), c1, s1, a, b, p, q); \
	move b, (R8)(AX*1); \
	TURN(move, mul, add, sub, (R9)(AX*1), c2, s2, a, b, p, q); \
	move b, (R9)(AX*1); \
	TURN(move, mul, add, sub, (R10)(AX*1), c3, s3, a, b, p, q); \
	move b, (R10)(AX*1); \
	move a, (DI)(AX*1)

#define TURNS1 TURNS(VMOVSD, VMULSD, VADDSD, VSUBSD, X0, X1, X2, X3, X4, X5, X6, X7, X8, X9, X10, X11)
#define TURNS2 TURNS(VMOVUPD, VMULPD, VADDPD, VSUBPD, X0, X1, X2, X3, X4, X5, X6, X7, X8, X9, X10, X11)
#define TURNS4 TURNS(VMOVUPD, VMULPD, VADDPD, VSUBPD, Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11)

#define G(field, n) (field + 8*(n))(BX)

// BROADCAST reads the rotations.
#define BROADCAST(c0, s0, c1, s1, c2, s2, c3, s3) \
	VBROADCASTSD G(Group_C, 0), c0; \
	VBROADCASTSD G(Group_S, 0), s0; \
	VBROADCASTSD G(Group_C, 1), c1; \
	VBROADCASTSD G(Group_S, 1), s1; \
	VBROADCASTSD G(Group_C, 2), c2; \
	VBROADCASTSD G(Group_S, 2), s2; \
	VBROADCASTSD G(Group_C, 3), c3; \
	VBROADCASTSD G(Group_S, 3), s3

// LABEL adds label X8 of the row of the factor to the prediction of turn n, and turns X8.
#define LABEL(n, row, c, s) \
	MOVQ   G(Group_Priors, n), CX; \
	VMULSD G(Group_V, n), X8, X9; \
	VMULSD c, X8, X8; \
	VMULSD row, s, X10; \
	VADDSD (CX)(DX*1), X9, X9; \
	VADDSD X10, X8, X8; \
	VMOVSD X9, (CX)(DX*1)

// ENTRY turns a, entry i+1 of the row of the factor, with that of row n, which Z gets.
#define ENTRY(n, row, c, s, z) \
	TURN(VMOVSD, VMULSD, VADDSD, VSUBSD, row, c, s, X8, z, X10, X11); \
	VMOVSD z, G(Group_Z, n)

// NORM replaces the diagonal of row i+1, X12, by its norm with entry z of turn n. Z is spoilt.
#define NORM(n, z) \
	VMOVSD  X12, G(Group_D, n); \
	VMULSD  z, z, z; \
	VMULSD  X12, X12, X12; \
	VADDSD  z, X12, X12; \
	VSQRTSD X12, X12, X12; \
	VMOVSD  X12, G(Group_Norms, n)

// BELOW points DX at row i+1, counted in columns from it as DI is.
#define BELOW \
	LEAQ 48(R12)(R13*1), DX; \
	SUBQ R11, DX; \
	ANDQ $-64, DX; \
	ADDQ DI, DX

// func turnGroupsAVX2(groups *Group, count int, own *float64, i, order, columns int, right, diagonal *float64) (done int)
//
// BX is the group. R11, R12 and R13 are 8i, 8 order and 8 columns. AX is 8 times a column,
// counted from DI in the row of the factor and from SI, R8, R9 and R10 in the rows of the turns.
// The entries that are no multiple of a register come first: see rows_amd64.s.
TEXT ·turnGroupsAVX2(SB), NOSPLIT, $0-72
	MOVQ groups+0(FP), BX
	MOVQ own+16(FP), DI
	MOVQ i+24(FP), R11
	MOVQ order+32(FP), R12
	MOVQ columns+40(FP), R13
	SHLQ $3, R11
	SHLQ $3, R12
	SHLQ $3, R13
	SUBQ R11, DI
	LEAQ 8(R11), AX
	CMPQ AX, R12
	JEQ  group
	BELOW
	VMOVSD (DX)(AX*1), X12

group:
	CMPQ Group_Still(BX), $0
	JNE  stop
	MOVQ G(Group_Rows, 0), SI
	MOVQ G(Group_Rows, 1), R8
	MOVQ G(Group_Rows, 2), R9
	MOVQ G(Group_Rows, 3), R10
	BROADCAST(Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7)
	MOVQ R12, AX
	XORQ DX, DX

label:
	VMOVSD (DI)(AX*1), X8
	LABEL(0, (SI)(AX*1), X0, X1)
	LABEL(1, (R8)(AX*1), X2, X3)
	LABEL(2, (R9)(AX*1), X4, X5)
	LABEL(3, (R10)(AX*1), X6, X7)
	MOVQ   right+48(FP), CX
	VMOVSD X8, (CX)(DX*1)
	ADDQ   $8, AX
	ADDQ   $8, DX
	CMPQ   DX, R13
	JNE    label

	LEAQ   8(R11), AX
	LEAQ   (R12)(R13*1), CX
	CMPQ   AX, R12
	JEQ    last
	VMOVSD (DI)(AX*1), X8
	ENTRY(0, (SI)(AX*1), X0, X1, X9)
	ENTRY(1, (R8)(AX*1), X2, X3, X13)
	ENTRY(2, (R9)(AX*1), X4, X5, X14)
	ENTRY(3, (R10)(AX*1), X6, X7, X15)
	VMOVSD X8, (DI)(AX*1)
	NORM(0, X9)
	ADDQ   $8, AX
	SUBQ   AX, CX
	SHRQ   $3, CX
	TESTQ  $1, CX
	JZ     two
	TURNS1
	ADDQ   $8, AX

two:
	TESTQ $2, CX
	JZ    fours
	TURNS2
	ADDQ  $16, AX

fours:
	NORM(1, X13)
	NORM(2, X14)
	NORM(3, X15)
	SHRQ $2, CX
	JZ   find

four:
	TURNS4
	ADDQ $32, AX
	DECQ CX
	JNZ  four

find:
	// The rotations of row i+1.
	VMOVUPD   Group_D(BX), Y8
	VMOVUPD   Group_Norms(BX), Y9
	VMOVUPD   Group_Z(BX), Y10
	VMOVUPD   Group_Gamma(BX), Y13
	VMOVUPD   Group_Left(BX), Y14
	VMULPD    Y13, Y8, Y11
	VDIVPD    Y11, Y10, Y11
	VMOVUPD   Y11, Group_V(BX)
	VDIVPD    Y9, Y8, Y8
	VMOVUPD   Y8, Group_C(BX)
	VDIVPD    Y9, Y10, Y9
	VMOVUPD   Y9, Group_S(BX)
	VMULPD    Y8, Y13, Y13
	VMOVUPD   Y13, Group_Gamma(BX)
	VMULPD    Y9, Y9, Y9
	VMULPD    Y9, Y14, Y9
	VADDPD    Group_Leverage(BX), Y9, Y9
	VMOVUPD   Y9, Group_Leverage(BX)
	VMULPD    Y8, Y8, Y8
	VMULPD    Y8, Y14, Y14
	VMOVUPD   Y14, Group_Left(BX)
	VXORPD    X9, X9, X9
	VCMPPD    $0, Y9, Y10, Y10
	VMOVMSKPD Y10, CX
	MOVQ      CX, Group_Still(BX)

next:
	ADDQ $Group__size, BX
	DECQ count+8(FP)
	JNZ  group

stop:
	SUBQ   groups+0(FP), BX
	MOVQ   BX, done+64(FP)
	LEAQ   8(R11), AX
	CMPQ   AX, R12
	JEQ    end
	BELOW
	MOVQ   diagonal+56(FP), CX
	VMOVSD X12, (DX)(AX*1)
	VMOVSD X12, (CX)(AX*1)

end:
	VZEROUPPER
	RET

last:
	TURNS1
	ADDQ $8, AX
	CMPQ AX, CX
	JNE  last
	JMP  next
