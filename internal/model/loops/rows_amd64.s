//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// Products and sums are separate instructions, never fused ones: the bits are to
// be those of the Go twins.
//
// The entries of a row that are no multiple of four come first. Rows end at one
// column and begin at another each: so the fours of a row are those of the row
// before, and what one has stored the next can load without waiting for the cache.

DATA unity<>+0(SB)/8, $0x3ff0000000000000
GLOBL unity<>(SB), RODATA|NOPTR, $8
DATA sign<>+0(SB)/8, $0x8000000000000000
GLOBL sign<>(SB), RODATA|NOPTR, $8

// TURN turns one register of row i with one of the row z. DI and SI point at them. Every lane
// of ca, sa, c and s holds the same number.
#define TURN(place, ca, sa, c, s, own, in, turned, part) \
	VMOVUPD place(DI), own; \
	VMOVUPD place(SI), in; \
	VMULPD  ca, own, turned; \
	VMULPD  s, in, part; \
	VMULPD  c, in, in; \
	VMULPD  sa, own, own; \
	VADDPD  part, turned, turned; \
	VSUBPD  own, in, in; \
	VMOVUPD turned, place(DI); \
	VMOVUPD in, place(SI)

#define TURN2(place) TURN(place, X0, X1, X2, X3, X4, X5, X6, X7)
#define TURN4(place) TURN(place, Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7)
#define TURN8(place) TURN(place, Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7)

#define T(field) field(R8)
#define S(field) field(R8)

// func turnAVX2(turns *Turn, stride, count, first, order, columns, start int, wide bool)
//
// R8 is the turn, R9 how many are left. R10 is 8i, R11 where row i is in the data,
// R12 how many entries it has, R13 the columns, R14 how far row i+1 is.
TEXT ·turnAVX2(SB), NOSPLIT, $0-57
	MOVQ   first+24(FP), R10
	MOVQ   order+32(FP), R12
	MOVQ   columns+40(FP), R13
	MOVQ   start+48(FP), R11
	SUBQ   R10, R12
	ADDQ   R13, R12
	SHLQ   $3, R10
	VXORPD X14, X14, X14

row:
	LEAQ 6(R12), R14
	ANDQ $-8, R14
	LEAQ 8(R14*8), R14
	MOVQ turns+0(FP), R8
	MOVQ count+16(FP), R9

turn:
	// DI is row i, DX row i+1, SI entry i, CX the entries behind it.
	MOVQ   T(Turn_Data), DI
	MOVQ   T(Turn_Row), SI
	ADDQ   R11, DI
	ADDQ   R10, SI
	LEAQ   (DI)(R14*1), DX
	LEAQ   -1(R12), CX
	VMOVSD T(Turn_Root), X10
	CMPQ   T(Turn_Still), $0
	JNE    still
	VMOVSD T(Turn_C), X2
	VMOVSD T(Turn_S), X3
	VMULSD X10, X2, X0 // ca
	VMULSD X10, X3, X1 // sa
	CMPQ   CX, R13
	JEQ    last
	VMOVSD 8(DI), X4
	VMOVSD 8(SI), X5
	VMULSD X0, X4, X6
	VMULSD X3, X5, X7
	VMULSD X2, X5, X8
	VMULSD X1, X4, X9
	VADDSD X7, X6, X6
	VSUBSD X9, X8, X4
	VMOVSD X6, 8(DI)

find:
	// X4 is z, entry i+1.
	VUCOMISD X14, X4
	JNE      turns
	JP       turns
	VMOVSD   X4, 8(SI)
	MOVQ     $1, T(Turn_Still)
	JMP      found

turns:
	VMULSD    (DX), X10, X5 // d
	VMULSD    X5, X5, X6
	VMULSD    X4, X4, X7
	VADDSD    X7, X6, X6
	VSQRTSD   X6, X6, X6    // norm
	VMOVSD    T(Turn_Gamma), X7
	VMULSD    X7, X5, X8
	VDIVSD    X8, X4, X8    // v
	VUNPCKLPD X4, X5, X9
	VMOVDDUP  X6, X11
	VDIVPD    X11, X9, X9   // c, s
	VMOVUPD   X9, T(Turn_C)
	MOVQ      $0, T(Turn_Still)
	MOVQ      $0, 8(SI)
	MOVQ      T(Turn_Diagonal), AX
	VMOVSD    X6, (DX)
	VMOVSD    X6, 8(AX)(R10*1)
	VMULPD    X9, X9, X11
	VMULSD    X9, X7, X7
	VMOVSD    X7, T(Turn_Gamma)
	VMOVSD    T(Turn_Left), X12
	VUNPCKHPD X11, X11, X13
	VMULSD    X13, X12, X13
	VADDSD    T(Turn_Leverage), X13, X13
	VMOVSD    X13, T(Turn_Leverage)
	VMULSD    X11, X12, X12
	VMOVSD    X12, T(Turn_Left)

	// The labels end row i+1, which has CX entries.
	MOVQ T(Turn_Priors), BX
	MOVQ CX, AX
	SUBQ R13, AX
	LEAQ (DX)(AX*8), AX
	MOVQ R13, DX
	SUBQ $2, DX
	JL   label

	VMOVDDUP X10, X10
	VMOVDDUP X8, X8

labels:
	VMULPD  (AX), X10, X11
	VMULPD  X11, X8, X11
	VADDPD  (BX), X11, X11
	VMOVUPD X11, (BX)
	ADDQ    $16, AX
	ADDQ    $16, BX
	SUBQ    $2, DX
	JGE     labels

label:
	TESTQ  $1, DX
	JZ     found
	VMULSD (AX), X10, X11
	VMULSD X11, X8, X11
	VADDSD (BX), X11, X11
	VMOVSD X11, (BX)

found:
	TESTQ DI, DI
	JZ    next
	ADDQ  $16, DI
	ADDQ  $16, SI
	DECQ  CX
	JMP   one

last:
	ADDQ $8, DI
	ADDQ $8, SI

one:
	VBROADCASTSD X0, Y0
	VBROADCASTSD X1, Y1
	VBROADCASTSD X2, Y2
	VBROADCASTSD X3, Y3
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
	TESTQ $2, CX
	JZ    fours
	TURN2(0)
	ADDQ  $16, DI
	ADDQ  $16, SI

fours:
	ANDQ $-4, CX
	JZ   right
	CMPB wide+56(FP), $0
	JNE  wide
	SUBQ $8, CX
	JL   four

eight:
	TURN4(0)
	TURN4(32)
	PREFETCHT0 (DI)(R14*1)
	ADDQ $64, DI
	ADDQ $64, SI
	SUBQ $8, CX
	JGE  eight

four:
	ADDQ $8, CX
	JZ   right
	TURN4(0)
	ADDQ $32, DI
	JMP  right

wide: // A row ends at the end of a cache line, so four entries come first, and each eight then is one line.
	TESTQ $4, CX
	JZ    eights
	TURN4(0)
	ADDQ  $32, DI
	ADDQ  $32, SI
	SUBQ  $4, CX
	JZ    right

eights:
	VBROADCASTSD X0, Z0
	VBROADCASTSD X1, Z1
	VBROADCASTSD X2, Z2
	VBROADCASTSD X3, Z3

next8:
	TURN8(0)
	PREFETCHT0 (DI)(R14*1)
	ADDQ $64, DI
	ADDQ $64, SI
	SUBQ $8, CX
	JNZ  next8

right:
	// DI is behind the row, which its labels end.
	MOVQ  T(Turn_Right), AX
	MOVQ  R10, BX
	IMULQ R13, BX
	ADDQ  BX, AX
	MOVQ  R13, CX
	SHLQ  $3, CX
	SUBQ  CX, DI
	MOVQ  R13, CX
	SUBQ  $2, CX
	JL    copy

copies:
	VMOVUPD (DI), X4
	VMOVUPD X4, (AX)
	ADDQ    $16, DI
	ADDQ    $16, AX
	SUBQ    $2, CX
	JGE     copies

copy:
	TESTQ $1, CX
	JZ    next
	MOVQ  (DI), BX
	MOVQ  BX, (AX)

next:
	ADDQ stride+8(FP), R8
	DECQ R9
	JNZ  turn
	ADDQ R14, R11
	DECQ R12
	ADDQ $8, R10
	CMPQ R12, R13
	JGT  row
	VZEROUPPER
	RET

still:
	// Row i is only discounted.
	VUCOMISD unity<>(SB), X10
	JEQ      ahead
	MOVQ     DI, AX
	MOVQ     R12, BX

scale:
	VMULSD (AX), X10, X4
	VMOVSD X4, (AX)
	ADDQ   $8, AX
	DECQ   BX
	JNZ    scale
	MOVQ   T(Turn_Diagonal), BX
	MOVQ   (DI), DI
	MOVQ   DI, (BX)(R10*1)

	// AX is behind the row.
	MOVQ  T(Turn_Right), BX
	MOVQ  R10, DI
	IMULQ R13, DI
	ADDQ  DI, BX
	MOVQ  R13, DI
	SHLQ  $3, DI
	SUBQ  DI, AX
	MOVQ  R13, DI

copied:
	VMOVSD (AX), X4
	VMOVSD X4, (BX)
	ADDQ   $8, AX
	ADDQ   $8, BX
	DECQ   DI
	JNZ    copied

ahead:
	CMPQ   CX, R13
	JEQ    next
	VMOVSD 8(SI), X4
	XORQ   DI, DI    // There is no more of row i to turn.
	JMP    find

// BELOW is row i+n as if it began in column i, from the row above. R14 is how many entries row
// i has.
#define BELOW(n, above, row) \
	LEAQ (7-n)(R14), row; \
	ANDQ $-8, row; \
	LEAQ (above)(row*8), row

// TAKE takes a product out of an entry of z.
#define TAKE(place, row, v, z) \
	VMULSD place(row), v, X5; \
	VSUBSD X5, z, z

// BEHIND takes four rows out of one register of z.
#define BEHIND(MOVE, MUL, SUB, place, v0, v1, v2, v3, z, part) \
	MOVE place(SI)(R14*8), z; \
	MUL  place(DI)(R14*8), v0, part; \
	SUB  part, z, z; \
	MUL  place(AX)(R14*8), v1, part; \
	SUB  part, z, z; \
	MUL  place(BX)(R14*8), v2, part; \
	SUB  part, z, z; \
	MUL  place(CX)(R14*8), v3, part; \
	SUB  part, z, z; \
	MOVE z, place(SI)(R14*8)

// LABEL adds rows i+1 to i+4 to one register of the priors.
#define LABEL(MOVE, MUL, ADD, sum, part) \
	MUL  (AX)(R14*8), X1, sum; \
	ADD  (R15)(R14*8), sum, sum; \
	MUL  (BX)(R14*8), X2, part; \
	ADD  part, sum, sum; \
	MUL  (CX)(R14*8), X3, part; \
	ADD  part, sum, sum; \
	MUL  (DX)(R14*8), X4, part; \
	ADD  part, sum, sum; \
	MOVE sum, (R15)(R14*8)

// func substituteAVX2(solutions *Substitution, stride, count, order, columns int)
//
// R8 is the solution, R9 how many are left. R10 is 8i, R11 where row i is in the
// data, R12 the entries from i on, R13 the columns. Four rows are taken out of what is behind
// them in one pass. Where an entry of z is 0, and at the end, every row has a pass.
TEXT ·substituteAVX2(SB), NOSPLIT, $24-40
	MOVQ   order+24(FP), R12
	MOVQ   columns+32(FP), R13
	XORQ   R10, R10
	XORQ   R11, R11
	VXORPD X14, X14, X14
	VMOVSD sign<>(SB), X13

panel:
	MOVQ solutions+0(FP), R8
	MOVQ count+16(FP), R9
	MOVQ R10, place-8(SP)
	MOVQ R11, start-16(SP)
	MOVQ R12, entries-24(SP)

solution:
	CMPQ R12, $5
	JLT  singles
	CMPQ S(Substitution_Still), $0
	JNE  singles

	// DI, AX, BX, CX and DX are rows i to i+4 as if each began in column i, SI entry i.
	MOVQ         S(Substitution_Data), DI
	MOVQ         S(Substitution_Z), SI
	ADDQ         R11, DI
	ADDQ         R10, SI
	LEAQ         (R12)(R13*1), R14
	BELOW(1, DI, AX)
	BELOW(2, AX, BX)
	BELOW(3, BX, CX)
	BELOW(4, CX, DX)
	VBROADCASTSD S(Substitution_V), Y0
	VMOVSD       8(SI), X1
	TAKE(8, DI, X0, X1)
	VUCOMISD     X14, X1
	JEQ          singles
	VDIVSD       8(AX), X1, X1
	VMOVSD       16(SI), X2
	TAKE(16, DI, X0, X2)
	TAKE(16, AX, X1, X2)
	VUCOMISD     X14, X2
	JEQ          singles
	VDIVSD       16(BX), X2, X2
	VMOVSD       24(SI), X3
	TAKE(24, DI, X0, X3)
	TAKE(24, AX, X1, X3)
	TAKE(24, BX, X2, X3)
	VUCOMISD     X14, X3
	JEQ          singles
	VDIVSD       24(CX), X3, X3
	VMOVSD       32(SI), X4
	TAKE(32, DI, X0, X4)
	TAKE(32, AX, X1, X4)
	TAKE(32, BX, X2, X4)
	TAKE(32, CX, X3, X4)
	VUCOMISD     X14, X4
	JEQ          singles
	VDIVSD       32(DX), X4, X4
	VMOVSD       X1, 8(SI)
	VMOVSD       X2, 16(SI)
	VMOVSD       X3, 24(SI)
	VMOVSD       X4, 32(SI)
	VMOVSD       X4, S(Substitution_V)
	VMULSD       X1, X1, X5
	VADDSD       S(Substitution_Square), X5, X5
	VMULSD       X2, X2, X6
	VADDSD       X6, X5, X5
	VMULSD       X3, X3, X6
	VADDSD       X6, X5, X5
	VMULSD       X4, X4, X6
	VADDSD       X6, X5, X5
	VMOVSD       X5, S(Substitution_Square)
	VBROADCASTSD X1, Y1
	VBROADCASTSD X2, Y2
	VBROADCASTSD X3, Y3
	VMOVDDUP     X4, X4


	// The labels end the rows, from column R12 on.
	MOVQ S(Substitution_Priors), R15
	MOVQ R12, R14
	SHLQ $3, R14
	SUBQ R14, R15
	MOVQ R12, R14
	LEAQ -2(R12)(R13*1), R13

pair:
	CMPQ R14, R13
	JGT  odd
	LABEL(VMOVUPD, VMULPD, VADDPD, X5, X6)
	ADDQ $2, R14
	JMP  pair

odd:
	ADDQ $2, R13
	CMPQ R14, R13
	JEQ  labelled
	LABEL(VMOVSD, VMULSD, VADDSD, X5, X6)

labelled:
	SUBQ  R12, R13

	// R10, R11, R12 and DX are the panel behind the four rows.
	MOVQ DX, R14
	SUBQ DI, R14
	LEAQ (AX)(R14*1), R10
	LEAQ (BX)(R14*1), R11
	MOVQ R12, R15
	LEAQ (CX)(R14*1), R12
	MOVQ  $5, R14
	SUBQ  $5, R15
	TESTQ $1, R15
	JZ    both
	BEHIND(VMOVSD, VMULSD, VSUBSD, 0, X0, X1, X2, X3, X5, X6)
	INCQ  R14

both:
	TESTQ $2, R15
	JZ    all
	BEHIND(VMOVUPD, VMULPD, VSUBPD, 0, X0, X1, X2, X3, X5, X6)
	ADDQ  $2, R14

all:
	ANDQ $-4, R15
	JZ   next
	SUBQ $8, R15
	JL   half

	PCALIGN $32

whole:
	BEHIND(VMOVUPD, VMULPD, VSUBPD, 0, Y0, Y1, Y2, Y3, Y5, Y6)
	BEHIND(VMOVUPD, VMULPD, VSUBPD, 32, Y0, Y1, Y2, Y3, Y7, Y8)
	PREFETCHT0 (DX)(R14*8)
	PREFETCHT0 (R10)(R14*8)
	PREFETCHT0 (R11)(R14*8)
	PREFETCHT0 (R12)(R14*8)
	ADDQ $8, R14
	SUBQ $8, R15
	JGE  whole

half:
	ADDQ $8, R15
	JZ   next
	BEHIND(VMOVUPD, VMULPD, VSUBPD, 0, Y0, Y1, Y2, Y3, Y5, Y6)

next:
	ADDQ stride+8(FP), R8
	MOVQ place-8(SP), R10
	MOVQ start-16(SP), R11
	MOVQ entries-24(SP), R12
	DECQ R9
	JNZ  solution

	LEAQ (R12)(R13*1), R14
	BELOW(1, R11, AX)
	BELOW(2, AX, BX)
	BELOW(3, BX, CX)
	BELOW(4, CX, DX)
	LEAQ 32(DX), R11
	ADDQ $32, R10
	SUBQ $4, R12
	CMPQ R12, $1
	JGT  panel
	VZEROUPPER
	RET

singles:
	LEAQ -1(R12), R14
	CMPQ R14, $4
	JLE  single
	MOVQ $4, R14

single:
	// DI is row i, DX row i+1, SI entry i, CX the entries behind it.
	MOVQ   S(Substitution_Data), DI
	MOVQ   S(Substitution_Z), SI
	ADDQ   R11, DI
	ADDQ   R10, SI
	LEAQ   6(R12)(R13*1), DX
	ANDQ   $-8, DX
	LEAQ   8(DI)(DX*8), DX
	LEAQ   -1(R12), CX
	VMOVSD 8(SI), X4
	CMPQ   S(Substitution_Still), $0
	JNE    still
	VMOVSD S(Substitution_V), X0
	VXORPD X13, X0, X0
	VMULSD 8(DI), X0, X1
	VADDSD X1, X4, X4

find:
	// X4 is z, entry i+1.
	VUCOMISD X14, X4
	JNE      solve
	JP       solve
	VMOVSD   X4, 8(SI)
	MOVQ     $1, S(Substitution_Still)
	JMP      found

solve:
	VDIVSD (DX), X4, X4
	VMOVSD X4, 8(SI)
	VMOVSD X4, S(Substitution_V)
	MOVQ   $0, S(Substitution_Still)
	VMULSD X4, X4, X5
	VADDSD S(Substitution_Square), X5, X5
	VMOVSD X5, S(Substitution_Square)
	MOVQ   S(Substitution_Priors), BX
	LEAQ   (DX)(CX*8), AX
	MOVQ   R13, DX
	SUBQ   $2, DX
	JL     label

	VMOVDDUP X4, X4

labels:
	VMULPD  (AX), X4, X5
	VADDPD  (BX), X5, X5
	VMOVUPD X5, (BX)
	ADDQ    $16, AX
	ADDQ    $16, BX
	SUBQ    $2, DX
	JGE     labels

label:
	TESTQ  $1, DX
	JZ     found
	VMULSD (AX), X4, X5
	VADDSD (BX), X5, X5
	VMOVSD X5, (BX)

found:
	TESTQ        DI, DI
	JZ           behind
	ADDQ         $16, DI
	ADDQ         $16, SI
	DECQ         CX
	VBROADCASTSD X0, Y0
	TESTQ        $1, CX
	JZ           two
	VMULSD       (DI), X0, X1
	VADDSD       (SI), X1, X1
	VMOVSD       X1, (SI)
	ADDQ         $8, DI
	ADDQ         $8, SI

two:
	TESTQ   $2, CX
	JZ      fours
	VMULPD  (DI), X0, X1
	VADDPD  (SI), X1, X1
	VMOVUPD X1, (SI)
	ADDQ    $16, DI
	ADDQ    $16, SI

fours:
	ANDQ $-4, CX
	JZ   behind
	SUBQ $8, CX
	JL   four

	// A loop that crosses more lines of code than it must costs a Predict of auto up to 5 %.
	PCALIGN $32

eight:
	VMULPD  (DI), Y0, Y1
	VMULPD  32(DI), Y0, Y2
	VADDPD  (SI), Y1, Y1
	VADDPD  32(SI), Y2, Y2
	VMOVUPD Y1, (SI)
	VMOVUPD Y2, 32(SI)
	ADDQ    $64, DI
	ADDQ    $64, SI
	SUBQ    $8, CX
	JGE     eight

four:
	ADDQ    $8, CX
	JZ      behind
	VMULPD  (DI), Y0, Y1
	VADDPD  (SI), Y1, Y1
	VMOVUPD Y1, (SI)

behind:
	LEAQ 6(R12)(R13*1), DX
	ANDQ $-8, DX
	LEAQ 8(R11)(DX*8), R11
	ADDQ $8, R10
	DECQ R12
	DECQ R14
	JNZ  single
	JMP  next

still:
	XORQ DI, DI // Nothing is taken from the entries behind.
	JMP  find
