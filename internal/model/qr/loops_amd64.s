//go:build !purego

#include "textflag.h"

// Products and sums are separate instructions, never fused ones: the bits are to
// be those of the Go twins.

// func rotateAVX2(a, b *float64, n int, ca, sa, c, s float64)
TEXT ·rotateAVX2(SB), NOSPLIT, $0-56
	MOVQ         a+0(FP), DI
	MOVQ         b+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSD ca+24(FP), Y0
	VBROADCASTSD sa+32(FP), Y1
	VBROADCASTSD c+40(FP), Y2
	VBROADCASTSD s+48(FP), Y3
	SUBQ         $8, CX
	JL           four

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
	ADDQ    $4, CX
	JL      done
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
	SUBQ         $16, CX
	JL           rest

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
	JG      eight

	// Parts 0-3 plus parts 4-7, then the even ones plus the odd ones.
	VADDPD       Y1, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPD       X1, X0, X0
	VUNPCKHPD    X0, X0, X1
	VADDSD       X1, X0, X0
	VMOVSD       X0, ret+24(FP)
	VZEROUPPER
	RET
