//go:build !purego

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
