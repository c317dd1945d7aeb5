//go:build !purego

#include "textflag.h"

// Products and sums are separate instructions, never fused ones: the bits are to
// be those of the Go twin. Go's assembler knows only the fused ones of vectors, so
// the others are words, named as ARM names them. They take numbers of registers.

// FMUL Vd.2D, Vn.2D, Vm.2D: d = n m
#define FMUL2D(m, n, d) WORD $(0x6e60dc00 | m<<16 | n<<5 | d)

// FADD Vd.2D, Vn.2D, Vm.2D: d = n + m
#define FADD2D(m, n, d) WORD $(0x4e60d400 | m<<16 | n<<5 | d)

// FSUB Vd.2D, Vn.2D, Vm.2D: d = n − m
#define FSUB2D(m, n, d) WORD $(0x4ee0d400 | m<<16 | n<<5 | d)

// The constants in the order of the registers that hold them, V11 to V31.
DATA constants<>+0(SB)/8, $0x3fe45f306dc9c883   // twoOverPi
DATA constants<>+8(SB)/8, $0x4338000000000000   // magic
DATA constants<>+16(SB)/8, $0x3ff921fb54400000  // part1
DATA constants<>+24(SB)/8, $0x3dd0b4611a600000  // part2
DATA constants<>+32(SB)/8, $0x3ba3198a2e000000  // part3
DATA constants<>+40(SB)/8, $0x397b839a252049c1  // part4
DATA constants<>+48(SB)/8, $0xbfc5555555555549  // s1
DATA constants<>+56(SB)/8, $0x3f8111111110f8a6  // s2
DATA constants<>+64(SB)/8, $0xbf2a01a019c161d5  // s3
DATA constants<>+72(SB)/8, $0x3ec71de357b1fe7d  // s4
DATA constants<>+80(SB)/8, $0xbe5ae5e68a2b9ceb  // s5
DATA constants<>+88(SB)/8, $0x3de5d93a5acfd57c  // s6
DATA constants<>+96(SB)/8, $0x3fa555555555554c  // c1
DATA constants<>+104(SB)/8, $0xbf56c16c16c15177 // c2
DATA constants<>+112(SB)/8, $0x3efa01a019cb1590 // c3
DATA constants<>+120(SB)/8, $0xbe927e4f809c52ad // c4
DATA constants<>+128(SB)/8, $0x3e21ee9ebdb4b1c4 // c5
DATA constants<>+136(SB)/8, $0xbda8fae9be8838d4 // c6
DATA constants<>+144(SB)/8, $0x3fe0000000000000 // 1/2
DATA constants<>+152(SB)/8, $0x3ff0000000000000 // 1
DATA constants<>+160(SB)/8, $0x8000000000000000 // signBit
GLOBL constants<>(SB), RODATA|NOPTR, $168

// func sincosNEON(sines, cosines, angles *float64, n int) (done int)
TEXT ·sincosNEON(SB), NOSPLIT, $0-40
	MOVD    sines+0(FP), R0
	MOVD    cosines+8(FP), R1
	MOVD    angles+16(FP), R2
	MOVD    n+24(FP), R3
	MOVD    ZR, R4
	MOVD    $(0x413921fb00000000<<1), R7 // ordinary without its sign
	MOVD    $constants<>(SB), R8
	VLD1R.P 8(R8), [V11.D2]
	VLD1R.P 8(R8), [V12.D2]
	VLD1R.P 8(R8), [V13.D2]
	VLD1R.P 8(R8), [V14.D2]
	VLD1R.P 8(R8), [V15.D2]
	VLD1R.P 8(R8), [V16.D2]
	VLD1R.P 8(R8), [V17.D2]
	VLD1R.P 8(R8), [V18.D2]
	VLD1R.P 8(R8), [V19.D2]
	VLD1R.P 8(R8), [V20.D2]
	VLD1R.P 8(R8), [V21.D2]
	VLD1R.P 8(R8), [V22.D2]
	VLD1R.P 8(R8), [V23.D2]
	VLD1R.P 8(R8), [V24.D2]
	VLD1R.P 8(R8), [V25.D2]
	VLD1R.P 8(R8), [V26.D2]
	VLD1R.P 8(R8), [V27.D2]
	VLD1R.P 8(R8), [V28.D2]
	VLD1R.P 8(R8), [V29.D2]
	VLD1R.P 8(R8), [V30.D2]
	VLD1R.P 8(R8), [V31.D2]

two:
	// Without their signs, the bits of numbers have the order of the numbers, and those of
	// infinities and NaN are behind.
	LDP (R2), (R5, R6)
	LSL $1, R5
	LSL $1, R6
	CMP R7, R5
	BHS end
	CMP R7, R6
	BHS end

	// Reduction: V1 is rounded, V2 n, V3 r, V4 low.
	FMOVQ.P 16(R2), F0
	FMUL2D(11, 0, 1)
	FADD2D(12, 1, 1)
	FSUB2D(12, 1, 2)
	FMUL2D(13, 2, 3)
	FSUB2D(3, 0, 3) // a
	FMUL2D(14, 2, 4) // b
	FSUB2D(4, 3, 5) // h
	FSUB2D(3, 5, 6) // v
	FSUB2D(6, 5, 7)
	FSUB2D(7, 3, 7)
	FADD2D(6, 4, 8)
	FSUB2D(8, 7, 7) // low
	FMUL2D(15, 2, 4) // b
	FSUB2D(4, 5, 3) // r
	FSUB2D(5, 3, 6) // v
	FSUB2D(6, 3, 8)
	FSUB2D(8, 5, 8)
	FADD2D(6, 4, 9)
	FSUB2D(9, 8, 8)
	FADD2D(8, 7, 7)
	FMUL2D(16, 2, 4)
	FSUB2D(4, 7, 4)

	// V5 is z, V8 the sine of r.
	FMUL2D(3, 3, 5)
	FMUL2D(22, 5, 6)
	FMUL2D(28, 5, 9)
	FADD2D(21, 6, 6)
	FADD2D(27, 9, 9)
	FMUL2D(6, 5, 6)
	FMUL2D(9, 5, 9)
	FADD2D(20, 6, 6)
	FADD2D(26, 9, 9)
	FMUL2D(6, 5, 6)
	FMUL2D(9, 5, 9)
	FADD2D(19, 6, 6)
	FADD2D(25, 9, 9)
	FMUL2D(6, 5, 6)
	FMUL2D(9, 5, 9)
	FADD2D(18, 6, 6)
	FADD2D(24, 9, 9)
	FMUL2D(3, 5, 7) // v
	FMUL2D(9, 5, 9)
	FMUL2D(6, 7, 6)
	FADD2D(23, 9, 9)
	FMUL2D(29, 4, 8)
	FSUB2D(6, 8, 8)
	FMUL2D(8, 5, 8)
	FSUB2D(4, 8, 8)
	FMUL2D(17, 7, 7)
	FSUB2D(7, 8, 8)
	FSUB2D(8, 3, 8)
	VAND V31.B16, V3.B16, V7.B16
	VORR V7.B16, V8.B16, V8.B16

	// V9 is the cosine of r.
	FMUL2D(9, 5, 9)
	FMUL2D(29, 5, 6) // half
	FSUB2D(6, 30, 7) // w
	FSUB2D(7, 30, 10)
	FSUB2D(6, 10, 10)
	FMUL2D(9, 5, 9)
	FMUL2D(4, 3, 0)
	FSUB2D(0, 9, 9)
	FADD2D(9, 10, 10)
	FADD2D(10, 7, 9)

	// The last two bits of V1 are the quadrant. Odd ones swap sine and cosine.
	VSHL    $63, V1.D2, V6.D2
	VSHL    $62, V1.D2, V7.D2
	VCMTST  V31.D2, V6.D2, V0.D2
	VMOV    V0.B16, V10.B16
	VBSL    V8.B16, V9.B16, V0.B16
	VBSL    V9.B16, V8.B16, V10.B16
	VEOR    V7.B16, V6.B16, V6.B16
	VAND    V31.B16, V7.B16, V7.B16
	VAND    V31.B16, V6.B16, V6.B16
	VEOR    V7.B16, V0.B16, V0.B16
	VEOR    V6.B16, V10.B16, V10.B16
	FMOVQ.P F0, 16(R0)
	FMOVQ.P F10, 16(R1)
	ADD     $2, R4
	CMP     R3, R4
	BLT     two

end:
	MOVD R4, done+32(FP)
	RET
