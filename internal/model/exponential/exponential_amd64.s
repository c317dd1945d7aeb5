//go:build !purego

#include "textflag.h"

// Products and sums are separate instructions, never fused ones: the bits are to
// be those of the Go twin.

#define FOUR(name, bits) \
	DATA name<>+0(SB)/8, $bits;  \
	DATA name<>+8(SB)/8, $bits;  \
	DATA name<>+16(SB)/8, $bits; \
	DATA name<>+24(SB)/8, $bits; \
	GLOBL name<>(SB), RODATA|NOPTR, $32

FOUR(least, 0xc087500000000000)
FOUR(most, 0x4086300000000000)
FOUR(log2e, 0x3ff71547652b82fe)
FOUR(magic, 0x4338000000000000)
FOUR(part1, 0x3fe62e42fee00000)
FOUR(part2, 0x3dea39ef35793c76)
FOUR(p1, 0x3fc555555555553e)
FOUR(p2, 0xbf66c16c16bebd93)
FOUR(p3, 0x3f11566aaf25de2c)
FOUR(p4, 0xbebbbd41c5d26bf1)
FOUR(p5, 0x3e66376972bea4d0)
FOUR(half, 0x3fe0000000000000)
FOUR(unity, 0x3ff0000000000000)
FOUR(two, 0x4000000000000000)
FOUR(bias, 1023)

// func expAVX2(dst, x *float64, n int)
TEXT ·expAVX2(SB), NOSPLIT, $0-24
	MOVQ    dst+0(FP), DI
	MOVQ    x+8(FP), SI
	MOVQ    n+16(FP), CX
	VMOVUPD magic<>(SB), Y15
	VMOVUPD unity<>(SB), Y14
	VMOVUPD two<>(SB), Y13
	VMOVUPD bias<>(SB), Y12
	VMOVUPD least<>(SB), Y11
	VMOVUPD most<>(SB), Y10

four:
	// Of a NaN and a number, the instructions give what they have second: x.
	VMAXPD (SI), Y11, Y0
	VMINPD Y0, Y10, Y0
	VMULPD log2e<>(SB), Y0, Y1
	VADDPD Y15, Y1, Y1
	VSUBPD Y15, Y1, Y1         // n
	VMULPD part1<>(SB), Y1, Y2
	VSUBPD Y2, Y0, Y2          // high
	VMULPD part2<>(SB), Y1, Y3 // low
	VSUBPD Y3, Y2, Y4          // r
	VMULPD Y4, Y4, Y5          // t
	VMULPD p5<>(SB), Y5, Y6
	VADDPD p4<>(SB), Y6, Y6
	VMULPD Y6, Y5, Y6
	VADDPD p3<>(SB), Y6, Y6
	VMULPD Y6, Y5, Y6
	VADDPD p2<>(SB), Y6, Y6
	VMULPD Y6, Y5, Y6
	VADDPD p1<>(SB), Y6, Y6
	VMULPD Y6, Y5, Y6
	VSUBPD Y6, Y4, Y6          // c
	VMULPD Y6, Y4, Y7
	VSUBPD Y6, Y13, Y8
	VDIVPD Y8, Y7, Y7
	VSUBPD Y7, Y3, Y7
	VSUBPD Y2, Y7, Y7
	VSUBPD Y7, Y14, Y7         // y
	VMULPD half<>(SB), Y1, Y8
	VADDPD Y15, Y8, Y8         // half
	VSUBPD Y15, Y8, Y9
	VSUBPD Y9, Y1, Y9
	VADDPD Y15, Y9, Y9         // rest
	VPADDQ Y12, Y8, Y8
	VPADDQ Y12, Y9, Y9
	VPSLLQ $52, Y8, Y8
	VPSLLQ $52, Y9, Y9
	VMULPD Y8, Y7, Y7
	VMULPD Y9, Y7, Y7
	VMOVUPD Y7, (DI)
	ADDQ   $32, SI
	ADDQ   $32, DI
	SUBQ   $4, CX
	JG     four
	VZEROUPPER
	RET
