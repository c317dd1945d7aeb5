//go:build !amd64 || purego

package qr

func turn(turns []Turn, first, order, _ int) { turnGo(turns, first, order) }

func substitute(solutions []Solution, order, _ int) { substituteGo(solutions, order) }
