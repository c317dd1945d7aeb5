//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// Products and sums are separate instructions, never fused ones: the bits are to
// be those of the Go twins. Go's assembler knows only the fused ones of vectors, so
// the others are words, named as ARM names them. They take numbers of registers.

// FMUL Vd.2D, Vn.2D, Vm.2D: d = n m
#define FMUL2D(m, n, d) WORD $(0x6e60dc00 | m<<16 | n<<5 | d)

// FADD Vd.2D, Vn.2D, Vm.2D: d = n + m
#define FADD2D(m, n, d) WORD $(0x4e60d400 | m<<16 | n<<5 | d)

// FSUB Vd.2D, Vn.2D, Vm.2D: d = n − m
#define FSUB2D(m, n, d) WORD $(0x4ee0d400 | m<<16 | n<<5 | d)

// FADDP Dd, Vn.2D: d = n_0 + n_1
#define FADDPD(n, d) WORD $(0x7e70d800 | n<<5 | d)

// FMUL Vd.4S, Vn.4S, Vm.4S: d = n m
#define FMUL4S(m, n, d) WORD $(0x6e20dc00 | m<<16 | n<<5 | d)

// FADD Vd.4S, Vn.4S, Vm.4S: d = n + m
#define FADD4S(m, n, d) WORD $(0x4e20d400 | m<<16 | n<<5 | d)

// FSUB Vd.4S, Vn.4S, Vm.4S: d = n − m
#define FSUB4S(m, n, d) WORD $(0x4ea0d400 | m<<16 | n<<5 | d)

// FADDP Vd.4S, Vn.4S, Vm.4S: d = n_0 + n_1, n_2 + n_3, m_0 + m_1, m_2 + m_3
#define FADDP4S(m, n, d) WORD $(0x6e20d400 | m<<16 | n<<5 | d)

// The rotation and axpy take the entries that are no multiple of four first, as those
// of amd64 do and for the same reason.

// TURN turns a and b, and leaves them in turned and b. V0 to V3 hold ca, sa, c, s.
#define TURN(a, b, turned, part) \
	FMUL2D(0, a, turned);            \
	FMUL2D(3, b, part);              \
	FMUL2D(2, b, b);                 \
	FMUL2D(1, a, a);                 \
	FADD2D(part, turned, turned);    \
	FSUB2D(a, b, b)

// func rotateNEON(a, b *float64, n int, ca, sa, c, s float64)
TEXT ·rotateNEON(SB), NOSPLIT, $0-56
	MOVD  a+0(FP), R0
	MOVD  b+8(FP), R1
	MOVD  n+16(FP), R2
	FMOVD ca+24(FP), F0
	FMOVD sa+32(FP), F1
	FMOVD c+40(FP), F2
	FMOVD s+48(FP), F3
	VDUP  V0.D[0], V0.D2
	VDUP  V1.D[0], V1.D2
	VDUP  V2.D[0], V2.D2
	VDUP  V3.D[0], V3.D2
	TBZ   $0, R2, two
	FMOVD (R0), F4
	FMOVD (R1), F5
	TURN(4, 5, 6, 7)
	FMOVD.P F6, 8(R0)
	FMOVD.P F5, 8(R1)

two:
	TBZ   $1, R2, fours
	FMOVQ (R0), F4
	FMOVQ (R1), F5
	TURN(4, 5, 6, 7)
	FMOVQ.P F6, 16(R0)
	FMOVQ.P F5, 16(R1)

fours:
	ANDS $~3, R2
	BEQ  end

four:
	FLDPQ   (R0), (F4, F5)
	FLDPQ   (R1), (F6, F7)
	TURN(4, 6, 16, 17)
	TURN(5, 7, 18, 19)
	FSTPQ.P (F16, F18), 32(R0)
	FSTPQ.P (F6, F7), 32(R1)
	SUBS    $4, R2
	BNE     four

end:
	RET

// func axpyNEON(y, x *float64, n int, a float64)
TEXT ·axpyNEON(SB), NOSPLIT, $0-32
	MOVD  y+0(FP), R0
	MOVD  x+8(FP), R1
	MOVD  n+16(FP), R2
	FMOVD a+24(FP), F0
	VDUP  V0.D[0], V0.D2
	TBZ   $0, R2, two
	FMOVD.P 8(R1), F1
	FMOVD (R0), F2
	FMULD F0, F1, F1
	FADDD F1, F2, F2
	FMOVD.P F2, 8(R0)

two:
	TBZ   $1, R2, fours
	FMOVQ.P 16(R1), F1
	FMOVQ (R0), F2
	FMUL2D(0, 1, 1)
	FADD2D(1, 2, 2)
	FMOVQ.P F2, 16(R0)

fours:
	ANDS $~3, R2
	BEQ  end

four:
	FLDPQ.P 32(R1), (F1, F2)
	FLDPQ   (R0), (F3, F4)
	FMUL2D(0, 1, 1)
	FMUL2D(0, 2, 2)
	FADD2D(1, 3, 3)
	FADD2D(2, 4, 4)
	FSTPQ.P (F3, F4), 32(R0)
	SUBS    $4, R2
	BNE     four

end:
	RET

// func dotNEON(x, y *float64, n int) float64
//
// V0 to V3 are the eight sums.
TEXT ·dotNEON(SB), NOSPLIT, $0-32
	MOVD x+0(FP), R0
	MOVD y+8(FP), R1
	MOVD n+16(FP), R2
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16
	SUBS $8, R2
	BLT  four

eight:
	FLDPQ.P 32(R0), (F4, F5)
	FLDPQ.P 32(R1), (F16, F17)
	FLDPQ.P 32(R0), (F6, F7)
	FLDPQ.P 32(R1), (F18, F19)
	FMUL2D(16, 4, 4)
	FMUL2D(17, 5, 5)
	FMUL2D(18, 6, 6)
	FMUL2D(19, 7, 7)
	FADD2D(4, 0, 0)
	FADD2D(5, 1, 1)
	FADD2D(6, 2, 2)
	FADD2D(7, 3, 3)
	SUBS    $8, R2
	BGE     eight

four:
	TBZ   $2, R2, sum
	FLDPQ (R0), (F4, F5)
	FLDPQ (R1), (F16, F17)
	FMUL2D(16, 4, 4)
	FMUL2D(17, 5, 5)
	FADD2D(4, 0, 0)
	FADD2D(5, 1, 1)

sum:
	// Parts 0-3 plus parts 4-7, then the even ones plus the odd ones.
	FADD2D(2, 0, 0)
	FADD2D(3, 1, 1)
	FADD2D(1, 0, 0)
	FADDPD(0, 0)
	FMOVD F0, ret+24(FP)
	RET

#define T(field) field(R5)
#define S(field) field(R5)

// func turnNEON(turns *Turn, stride, count, first, order, columns, start int)
//
// R5 is the turn, R6 how many are left. R7 is 8i, R8 where row i is in the data,
// R3 how many entries it has, R4 the columns, R2 how far row i+1 is.
TEXT ·turnNEON(SB), NOSPLIT, $0-56
	MOVD  stride+8(FP), R1
	MOVD  first+24(FP), R7
	MOVD  order+32(FP), R3
	MOVD  columns+40(FP), R4
	MOVD  start+48(FP), R8
	SUB   R7, R3
	ADD   R4, R3
	LSL   $3, R7
	FMOVD $1.0, F31

row:
	ADD  $6, R3, R2
	AND  $~7, R2
	ADD  $1, R2
	LSL  $3, R2
	MOVD turns+0(FP), R5
	MOVD count+16(FP), R6

turn:
	// R9 is row i, R10 row i+1, R11 entry i, R12 the entries behind it.
	MOVD  T(Turn_Data), R9
	MOVD  T(Turn_Row), R11
	ADD   R8, R9
	ADD   R7, R11
	ADD   R2, R9, R10
	SUB   $1, R3, R12
	FMOVD T(Turn_Root), F30
	MOVD  T(Turn_Still), R13
	CBNZ  R13, still
	FMOVD T(Turn_C), F2
	FMOVD T(Turn_S), F3
	FMULD F30, F2, F0 // ca
	FMULD F30, F3, F1 // sa
	ADD   $8, R9
	ADD   $8, R11
	CMP   R4, R12
	BEQ   one
	FMOVD (R9), F4
	FMOVD (R11), F5
	FMULD F4, F0, F6
	FMULD F5, F3, F7
	FMULD F5, F2, F8
	FMULD F4, F1, F9
	FADDD F7, F6, F6
	FSUBD F9, F8, F4
	FMOVD F6, (R9)

find:
	// F4 is z, entry i+1, and R11 its place.
	FCMPD $(0.0), F4
	BNE   turns
	FMOVD F4, (R11)
	MOVD  $1, R13
	MOVD  R13, T(Turn_Still)
	B     found

turns:
	FMOVD  (R10), F5
	FMULD  F5, F30, F5 // d
	FMULD  F5, F5, F6
	FMULD  F4, F4, F7
	FADDD  F7, F6, F6
	FSQRTD F6, F6      // norm
	FMOVD  T(Turn_Gamma), F7
	FMULD  F7, F5, F8
	FDIVD  F8, F4, F8  // v
	FDIVD  F6, F5, F10 // c
	FDIVD  F6, F4, F11 // s
	FMOVD  F10, T(Turn_C)
	FMOVD  F11, T(Turn_S)
	MOVD   ZR, T(Turn_Still)
	MOVD   ZR, (R11)
	FMOVD  F6, (R10)
	MOVD   T(Turn_Diagonal), R13
	ADD    R7, R13
	FMOVD  F6, 8(R13)
	FMULD  F10, F7, F7
	FMOVD  F7, T(Turn_Gamma)
	FMULD  F10, F10, F10
	FMULD  F11, F11, F11
	FMOVD  T(Turn_Left), F12
	FMOVD  T(Turn_Leverage), F13
	FMULD  F11, F12, F11
	FADDD  F11, F13, F13
	FMULD  F10, F12, F12
	FMOVD  F13, T(Turn_Leverage)
	FMOVD  F12, T(Turn_Left)

	// The labels end row i+1, which has R12 entries.
	MOVD T(Turn_Priors), R13
	ADD  R12<<3, R10
	SUB  R4<<3, R10
	MOVD R4, R14

labels:
	FMOVD.P 8(R10), F5
	FMOVD   (R13), F6
	FMULD   F5, F30, F5
	FMULD   F5, F8, F5
	FADDD   F5, F6, F6
	FMOVD.P F6, 8(R13)
	SUBS    $1, R14
	BNE     labels

found:
	CBZ R9, next
	ADD $8, R9
	ADD $8, R11
	SUB $1, R12

one:
	VDUP V0.D[0], V0.D2
	VDUP V1.D[0], V1.D2
	VDUP V2.D[0], V2.D2
	VDUP V3.D[0], V3.D2
	TBZ  $0, R12, two
	FMOVD (R9), F4
	FMOVD (R11), F5
	TURN(4, 5, 6, 7)
	FMOVD.P F6, 8(R9)
	FMOVD.P F5, 8(R11)

two:
	TBZ   $1, R12, fours
	FMOVQ (R9), F4
	FMOVQ (R11), F5
	TURN(4, 5, 6, 7)
	FMOVQ.P F6, 16(R9)
	FMOVQ.P F5, 16(R11)

fours:
	ANDS $~3, R12
	BEQ  right

four:
	FLDPQ   (R9), (F4, F5)
	FLDPQ   (R11), (F6, F7)
	TURN(4, 6, 16, 17)
	TURN(5, 7, 18, 19)
	FSTPQ.P (F16, F18), 32(R9)
	FSTPQ.P (F6, F7), 32(R11)
	SUBS    $4, R12
	BNE     four

right:
	// R9 is behind the row, which its labels end.
	MOVD T(Turn_Right), R13
	MUL  R4, R7, R14
	ADD  R14, R13
	SUB  R4<<3, R9
	MOVD R4, R14

copies:
	MOVD.P 8(R9), R10
	MOVD.P R10, 8(R13)
	SUBS   $1, R14
	BNE    copies

next:
	ADD  R1, R5
	SUBS $1, R6
	BNE  turn
	ADD  R2, R8
	SUB  $1, R3
	ADD  $8, R7
	CMP  R4, R3
	BGT  row
	RET

still:
	// Row i is only discounted.
	FCMPD F31, F30
	BEQ   ahead
	MOVD  R3, R14

scale:
	FMOVD   (R9), F4
	FMULD   F4, F30, F4
	FMOVD.P F4, 8(R9)
	SUBS    $1, R14
	BNE     scale
	MOVD    T(Turn_Diagonal), R13
	SUB     R3<<3, R9, R14
	MOVD    (R14), R14
	MOVD    R14, (R13)(R7)
	MOVD    T(Turn_Right), R13
	MUL     R4, R7, R14
	ADD     R14, R13
	SUB     R4<<3, R9
	MOVD    R4, R14

copied:
	MOVD.P 8(R9), R15
	MOVD.P R15, 8(R13)
	SUBS   $1, R14
	BNE    copied

ahead:
	CMP   R4, R12
	BEQ   next
	ADD   $8, R11
	FMOVD (R11), F4
	MOVD  ZR, R9 // There is no more of row i to turn.
	B     find

// func substituteNEON(solutions *Substitution, stride, count, order, columns int)
//
// R5 is the solution, R6 how many are left. R7 is 8i, R8 where row i is in the data,
// R3 the entries from i on, R4 the columns, R2 how far row i+1 is.
TEXT ·substituteNEON(SB), NOSPLIT, $0-40
	MOVD stride+8(FP), R1
	MOVD order+24(FP), R3
	MOVD columns+32(FP), R4
	MOVD ZR, R7
	MOVD ZR, R8

row:
	ADD  R3, R4, R2
	ADD  $6, R2
	AND  $~7, R2
	ADD  $1, R2
	LSL  $3, R2
	MOVD solutions+0(FP), R5
	MOVD count+16(FP), R6

turn:
	// R9 is row i, R10 row i+1, R11 entry i, R12 the entries behind it.
	MOVD  S(Substitution_Data), R9
	MOVD  S(Substitution_Z), R11
	ADD   R8, R9
	ADD   R7, R11
	ADD   R2, R9, R10
	SUB   $1, R3, R12
	FMOVD 8(R11), F4
	MOVD  S(Substitution_Still), R13
	CBNZ  R13, still
	FMOVD S(Substitution_V), F0
	FNEGD F0, F0
	FMOVD 8(R9), F1
	FMULD F1, F0, F1
	FADDD F1, F4, F4

find:
	// F4 is z, entry i+1.
	FMOVD F4, 8(R11)
	FCMPD $(0.0), F4
	BNE   solve
	MOVD  $1, R13
	MOVD  R13, S(Substitution_Still)
	B     found

solve:
	FMOVD (R10), F5
	FDIVD F5, F4, F4
	FMOVD F4, 8(R11)
	FMOVD F4, S(Substitution_V)
	MOVD  ZR, S(Substitution_Still)
	FMOVD S(Substitution_Square), F6
	FMULD F4, F4, F5
	FADDD F5, F6, F6
	FMOVD F6, S(Substitution_Square)

	// The labels end row i+1, which has R12 entries before them.
	MOVD S(Substitution_Priors), R13
	ADD  R12<<3, R10
	MOVD R4, R14
	VDUP V4.D[0], V4.D2
	SUBS $2, R14
	BLT  label

labels:
	FMOVQ.P 16(R10), F5
	FMOVQ   (R13), F6
	FMUL2D(4, 5, 5)
	FADD2D(5, 6, 6)
	FMOVQ.P F6, 16(R13)
	SUBS    $2, R14
	BGE     labels

label:
	TBZ   $0, R14, found
	FMOVD (R10), F5
	FMOVD (R13), F6
	FMULD F5, F4, F5
	FADDD F5, F6, F6
	FMOVD F6, (R13)

found:
	CBZ   R9, next
	ADD   $16, R9
	ADD   $16, R11
	SUB   $1, R12
	VDUP  V0.D[0], V0.D2
	TBZ   $0, R12, two
	FMOVD.P 8(R9), F1
	FMOVD (R11), F2
	FMULD F0, F1, F1
	FADDD F1, F2, F2
	FMOVD.P F2, 8(R11)

two:
	TBZ   $1, R12, fours
	FMOVQ.P 16(R9), F1
	FMOVQ (R11), F2
	FMUL2D(0, 1, 1)
	FADD2D(1, 2, 2)
	FMOVQ.P F2, 16(R11)

fours:
	ANDS $~3, R12
	BEQ  next

four:
	FLDPQ.P 32(R9), (F1, F2)
	FLDPQ   (R11), (F3, F4)
	FMUL2D(0, 1, 1)
	FMUL2D(0, 2, 2)
	FADD2D(1, 3, 3)
	FADD2D(2, 4, 4)
	FSTPQ.P (F3, F4), 32(R11)
	SUBS    $4, R12
	BNE     four

next:
	ADD  R1, R5
	SUBS $1, R6
	BNE  turn
	ADD  R2, R8
	SUB  $1, R3
	ADD  $8, R7
	CMP  $1, R3
	BGT  row
	RET

still:
	MOVD ZR, R9 // Nothing is taken from the entries behind.
	B    find

// ADDEIGHT adds eight columns of a row to its sums. V0 and V1 hold z, V2 and V3 the weights.
#define ADDEIGHT(row, low, high) \
	FLDPQ.P 32(row), (F4, F5); \
	FSUB4S(0, 4, 4);           \
	FSUB4S(1, 5, 5);           \
	FMUL4S(2, 4, 6);           \
	FMUL4S(3, 5, 7);           \
	FMUL4S(4, 6, 6);           \
	FMUL4S(5, 7, 7);           \
	FADD4S(6, low, low);       \
	FADD4S(7, high, high)

// func distancesNEON(dst, rows *float32, n, stride int, z, weights *float32, order int)
//
// R1 to R4 are four rows, V16 to V23 their sums.
TEXT ·distancesNEON(SB), NOSPLIT, $0-56
	MOVD dst+0(FP), R0
	MOVD rows+8(FP), R1
	MOVD n+16(FP), R5
	MOVD stride+24(FP), R6
	LSL  $2, R6

rows:
	ADD  R6, R1, R2
	ADD  R6, R2, R3
	ADD  R6, R3, R4
	ADD  R6, R4, R7
	MOVD z+32(FP), R8
	MOVD weights+40(FP), R9
	MOVD order+48(FP), R10
	VEOR V16.B16, V16.B16, V16.B16
	VEOR V17.B16, V17.B16, V17.B16
	VEOR V18.B16, V18.B16, V18.B16
	VEOR V19.B16, V19.B16, V19.B16
	VEOR V20.B16, V20.B16, V20.B16
	VEOR V21.B16, V21.B16, V21.B16
	VEOR V22.B16, V22.B16, V22.B16
	VEOR V23.B16, V23.B16, V23.B16

columns:
	FLDPQ.P 32(R8), (F0, F1)
	FLDPQ.P 32(R9), (F2, F3)
	ADDEIGHT(R1, 16, 17)
	ADDEIGHT(R2, 18, 19)
	ADDEIGHT(R3, 20, 21)
	ADDEIGHT(R4, 22, 23)
	SUBS    $8, R10
	BNE     columns

	// Neighbours first, thrice: four distances are left.
	FADDP4S(17, 16, 16)
	FADDP4S(19, 18, 18)
	FADDP4S(21, 20, 20)
	FADDP4S(23, 22, 22)
	FADDP4S(18, 16, 16)
	FADDP4S(22, 20, 20)
	FADDP4S(20, 16, 16)
	FMOVQ.P F16, 16(R0)
	MOVD    R7, R1
	SUBS    $4, R5
	BNE     rows
	RET
