//go:build !amd64 || purego

package qr

func turn(turns []Turn, first, order, _ int) { turnGo(turns, first, order) }

func substitute(solutions []Solution, order, _ int) { substituteGo(solutions, order) }

func cosines(squares, g, v []float64) { cosinesGo(squares, g, v, 0) }

func absorb(f *Factor, row, c, g, v []float64, full int) { absorbGo(f, row, c, g, v, full) }
