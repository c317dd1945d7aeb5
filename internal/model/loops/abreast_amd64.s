//go:build !purego

#include "textflag.h"

// Products and sums are separate instructions, never fused ones: the bits are equal to the bits of the
// Go twin.

// BELOW is row i+1 as if it began in column i, from row i of so many entries.
#define BELOW(entries, above, row) \
	LEAQ 6(entries)(R13*1), row; \
	ANDQ $-8, row; \
	LEAQ (above)(row*8), row

// An entry of all solutions is in two registers of AVX2. TAKE subtracts v times the number at a place from T, ADD adds
// v times the number. KNOWN divides v by the number at a place, and adds the squares of v.
#define V Y0
#define V1 Y1
#define W Y2
#define W1 Y3
#define T Y4
#define T1 Y5
#define SQUARES Y8
#define SQUARES1 Y9

#define ZERO(a, a1) \
	VXORPD a, a, a; \
	VXORPD a1, a1, a1

#define LOAD(at, from, a, a1) \
	VMOVUPD at(from), a; \
	VMOVUPD at+32(from), a1

#define STORE(at, to, a, a1) \
	VMOVUPD a, at(to); \
	VMOVUPD a1, at+32(to)

#define MOVE(a, a1, b, b1) \
	VMOVAPD a, b; \
	VMOVAPD a1, b1

#define PRODUCT(place, v, v1) \
	VBROADCASTSD place, Y12; \
	VMULPD       Y12, v, Y13; \
	VMULPD       Y12, v1, Y14

#define TAKE(place, v, v1) \
	PRODUCT(place, v, v1); \
	VSUBPD Y13, T, T; \
	VSUBPD Y14, T1, T1

#define ADD(place, v, v1) \
	PRODUCT(place, v, v1); \
	VADDPD Y13, T, T; \
	VADDPD Y14, T1, T1

#define KNOWN(place, v, v1) \
	VBROADCASTSD place, Y12; \
	VDIVPD       Y12, v, v; \
	VDIVPD       Y12, v1, v1; \
	VMULPD       v, v, Y13; \
	VMULPD       v1, v1, Y14; \
	VADDPD       Y13, SQUARES, SQUARES; \
	VADDPD       Y14, SQUARES1, SQUARES1

// func substituteAbreastAVX2(z, data, priors, squares *float64, order, columns int)
TEXT ·substituteAbreastAVX2(SB), NOSPLIT, $0-48
#include "abreast_amd64.h"

#undef V
#undef W
#undef T
#undef SQUARES
#undef ZERO
#undef LOAD
#undef STORE
#undef MOVE
#undef TAKE
#undef ADD
#undef KNOWN

// One register of AVX-512 is enough.
#define V Z0
#define W Z2
#define T Z4
#define SQUARES Z8

#define ZERO(a, a1) VPXORQ a, a, a
#define LOAD(at, from, a, a1) VMOVUPD at(from), a
#define STORE(at, to, a, a1) VMOVUPD a, at(to)
#define MOVE(a, a1, b, b1) VMOVAPD a, b

#define TAKE(place, v, v1) \
	VMULPD.BCST place, v, Z13; \
	VSUBPD      Z13, T, T

#define ADD(place, v, v1) \
	VMULPD.BCST place, v, Z13; \
	VADDPD      Z13, T, T

#define KNOWN(place, v, v1) \
	VBROADCASTSD place, Z12; \
	VDIVPD       Z12, v, v; \
	VMULPD       v, v, Z13; \
	VADDPD       Z13, SQUARES, SQUARES

// func substituteAbreastAVX512(z, data, priors, squares *float64, order, columns int)
TEXT ·substituteAbreastAVX512(SB), NOSPLIT, $0-48
#include "abreast_amd64.h"
