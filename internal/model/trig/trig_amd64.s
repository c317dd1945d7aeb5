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

FOUR(ordinary, 0x413921fb00000000)
FOUR(twoOverPi, 0x3fe45f306dc9c883)
FOUR(magic, 0x4338000000000000)
FOUR(part1, 0x3ff921fb54400000)
FOUR(part2, 0x3dd0b4611a600000)
FOUR(part3, 0x3ba3198a2e000000)
FOUR(part4, 0x397b839a252049c1)
FOUR(s1, 0xbfc5555555555549)
FOUR(s2, 0x3f8111111110f8a6)
FOUR(s3, 0xbf2a01a019c161d5)
FOUR(s4, 0x3ec71de357b1fe7d)
FOUR(s5, 0xbe5ae5e68a2b9ceb)
FOUR(s6, 0x3de5d93a5acfd57c)
FOUR(c1, 0x3fa555555555554c)
FOUR(c2, 0xbf56c16c16c15177)
FOUR(c3, 0x3efa01a019cb1590)
FOUR(c4, 0xbe927e4f809c52ad)
FOUR(c5, 0x3e21ee9ebdb4b1c4)
FOUR(c6, 0xbda8fae9be8838d4)
FOUR(half, 0x3fe0000000000000)
FOUR(unity, 0x3ff0000000000000)
FOUR(sign, 0x8000000000000000)
FOUR(magnitude, 0x7fffffffffffffff)
FOUR(integer1, 1)

// func sincosAVX2(sines, cosines, angles *float64, n int) (done int)
TEXT ·sincosAVX2(SB), NOSPLIT, $0-40
	MOVQ    sines+0(FP), DI
	MOVQ    cosines+8(FP), DX
	MOVQ    angles+16(FP), SI
	MOVQ    n+24(FP), CX
	XORQ    AX, AX
	VMOVUPD magic<>(SB), Y15
	VMOVUPD sign<>(SB), Y14
	VMOVUPD half<>(SB), Y13
	VMOVUPD unity<>(SB), Y12

four:
	VMOVUPD   (SI)(AX*8), Y0
	VANDPD    magnitude<>(SB), Y0, Y1
	VCMPPD    $0x11, ordinary<>(SB), Y1, Y1 // Less, and NaN is not.
	VMOVMSKPD Y1, BX
	CMPQ      BX, $15
	JNE       end

	// Reduction: Y1 is rounded, Y2 n, Y3 r, Y4 low.
	VMULPD twoOverPi<>(SB), Y0, Y1
	VADDPD Y15, Y1, Y1
	VSUBPD Y15, Y1, Y2
	VMULPD part1<>(SB), Y2, Y3
	VSUBPD Y3, Y0, Y3          // a
	VMULPD part2<>(SB), Y2, Y4 // b
	VSUBPD Y4, Y3, Y5          // h
	VSUBPD Y3, Y5, Y6          // v
	VSUBPD Y6, Y5, Y7
	VSUBPD Y7, Y3, Y7
	VADDPD Y6, Y4, Y8
	VSUBPD Y8, Y7, Y7          // low
	VMULPD part3<>(SB), Y2, Y4 // b
	VSUBPD Y4, Y5, Y3          // r
	VSUBPD Y5, Y3, Y6          // v
	VSUBPD Y6, Y3, Y8
	VSUBPD Y8, Y5, Y8
	VADDPD Y6, Y4, Y9
	VSUBPD Y9, Y8, Y8
	VADDPD Y8, Y7, Y7
	VMULPD part4<>(SB), Y2, Y4
	VSUBPD Y4, Y7, Y4

	// Y5 is z, Y8 the sine of r.
	VMULPD Y3, Y3, Y5
	VMULPD s6<>(SB), Y5, Y6
	VMULPD c6<>(SB), Y5, Y9
	VADDPD s5<>(SB), Y6, Y6
	VADDPD c5<>(SB), Y9, Y9
	VMULPD Y6, Y5, Y6
	VMULPD Y9, Y5, Y9
	VADDPD s4<>(SB), Y6, Y6
	VADDPD c4<>(SB), Y9, Y9
	VMULPD Y6, Y5, Y6
	VMULPD Y9, Y5, Y9
	VADDPD s3<>(SB), Y6, Y6
	VADDPD c3<>(SB), Y9, Y9
	VMULPD Y6, Y5, Y6
	VMULPD Y9, Y5, Y9
	VADDPD s2<>(SB), Y6, Y6
	VADDPD c2<>(SB), Y9, Y9
	VMULPD Y3, Y5, Y7          // v
	VMULPD Y9, Y5, Y9
	VMULPD Y6, Y7, Y6
	VADDPD c1<>(SB), Y9, Y9
	VMULPD Y13, Y4, Y8
	VSUBPD Y6, Y8, Y8
	VMULPD Y8, Y5, Y8
	VSUBPD Y4, Y8, Y8
	VMULPD s1<>(SB), Y7, Y7
	VSUBPD Y7, Y8, Y8
	VSUBPD Y8, Y3, Y8
	VANDPD Y14, Y3, Y7
	VORPD  Y7, Y8, Y8

	// Y9 is the cosine of r.
	VMULPD Y9, Y5, Y9
	VMULPD Y13, Y5, Y6         // half
	VSUBPD Y6, Y12, Y7         // w
	VSUBPD Y7, Y12, Y10
	VSUBPD Y6, Y10, Y10
	VMULPD Y9, Y5, Y9
	VMULPD Y4, Y3, Y11
	VSUBPD Y11, Y9, Y9
	VADDPD Y9, Y10, Y10
	VADDPD Y10, Y7, Y9

	// The last two bits of Y1 are the quadrant.
	VPSLLQ    $63, Y1, Y6
	VBLENDVPD Y6, Y9, Y8, Y10
	VBLENDVPD Y6, Y8, Y9, Y11
	VPSLLQ    $62, Y1, Y7
	VPADDQ    integer1<>(SB), Y1, Y1
	VPSLLQ    $62, Y1, Y1
	VANDPD    Y14, Y7, Y7
	VANDPD    Y14, Y1, Y1
	VXORPD    Y7, Y10, Y10
	VXORPD    Y1, Y11, Y11
	VMOVUPD   Y10, (DI)(AX*8)
	VMOVUPD   Y11, (DX)(AX*8)
	ADDQ      $4, AX
	CMPQ      AX, CX
	JLT       four

end:
	MOVQ AX, done+32(FP)
	VZEROUPPER
	RET
