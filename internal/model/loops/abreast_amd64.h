// The body of substituteAbreastAVX2 and of substituteAbreastAVX512, which define the registers.
//
// SI points at entries i of all solutions, DI at row i, AX at row i+1. R12 is the number of entries of row i, R13 the
// number of label columns behind them. V has entries i of the solutions, W entries i+1, SQUARES the sums of squares.
// One pass subtracts two rows from the entries behind them. If the number of rows is odd, the first row goes alone.
	MOVQ   z+0(FP), SI
	MOVQ   data+8(FP), DI
	MOVQ   priors+16(FP), BX
	MOVQ   order+32(FP), R12
	MOVQ   columns+40(FP), R13
	ZERO(SQUARES, SQUARES1)
	TESTQ  $1, R12
	JZ     pair

	LOAD(0, SI, V, V1)
	KNOWN((DI), V, V1)
	STORE(0, SI, V, V1)
	ADDQ    $64, SI
	BELOW(R12, DI, AX)
	ADDQ    $8, AX
	ADDQ    $8, DI
	MOVQ    SI, R9
	DECQ    R12
	MOVQ    R12, CX
	JZ      last

first:
	LOAD(0, R9, T, T1)
	TAKE((DI), V, V1)
	STORE(0, R9, T, T1)
	ADDQ    $8, DI
	ADDQ    $64, R9
	DECQ    CX
	JNZ     first

last:
	MOVQ BX, R9
	MOVQ R13, CX

label:
	LOAD(0, R9, T, T1)
	ADD((DI), V, V1)
	STORE(0, R9, T, T1)
	ADDQ    $8, DI
	ADDQ    $64, R9
	DECQ    CX
	JNZ     label
	MOVQ    AX, DI
	TESTQ   R12, R12
	JZ      done

pair:
	BELOW(R12, DI, AX)
	LEAQ    -1(R12), R8
	BELOW(R8, AX, R10)
	LOAD(0, SI, V, V1)
	LOAD(64, SI, T, T1)
	KNOWN((DI), V, V1)
	TAKE(8(DI), V, V1)
	MOVE(T, T1, W, W1)
	KNOWN(8(AX), W, W1)
	STORE(0, SI, V, V1)
	STORE(64, SI, W, W1)
	ADDQ    $128, SI
	ADDQ    $16, DI
	ADDQ    $16, AX
	ADDQ    $16, R10
	MOVQ    SI, R9
	SUBQ    $2, R12
	MOVQ    R12, CX
	JZ      labels

	PCALIGN $32

entry:
	LOAD(0, R9, T, T1)
	TAKE((DI), V, V1)
	TAKE((AX), W, W1)
	STORE(0, R9, T, T1)
	ADDQ    $8, DI
	ADDQ    $8, AX
	ADDQ    $64, R9
	DECQ    CX
	JNZ     entry

labels:
	MOVQ BX, R9
	MOVQ R13, CX

both:
	LOAD(0, R9, T, T1)
	ADD((DI), V, V1)
	ADD((AX), W, W1)
	STORE(0, R9, T, T1)
	ADDQ    $8, DI
	ADDQ    $8, AX
	ADDQ    $64, R9
	DECQ    CX
	JNZ     both
	MOVQ    R10, DI
	TESTQ   R12, R12
	JNZ     pair

done:
	MOVQ    squares+24(FP), DX
	STORE(0, DX, SQUARES, SQUARES1)
	VZEROUPPER
	RET
