//go:build !purego

package qr

import "golang.org/x/sys/cpu"

// turn is turnGo, four entries at a time where the processor can.
func turn(turns []Turn, first, order, columns int) {
	if !cpu.X86.HasAVX2 {
		turnGo(turns, first, order)
		return
	}
	turnAVX2(&turns[0], len(turns), first, order, columns, 8*turns[0].Factor.row(first))
}

// substitute is substituteGo, four entries at a time where the processor can.
func substitute(solutions []Solution, order, columns int) {
	if !cpu.X86.HasAVX2 {
		substituteGo(solutions, order)
		return
	}
	substituteAVX2(&solutions[0], len(solutions), order, columns)
}

// turnAVX2 is turnGo of count turns. Row first begins at byte start of the data.
//
//go:noescape
func turnAVX2(turns *Turn, count, first, order, columns, start int)

// substituteAVX2 is substituteGo of count solutions, of an order above 1.
//
//go:noescape
func substituteAVX2(solutions *Solution, count, order, columns int)
