//go:build !amd64 || purego

package trees

// The loops are documented in loops_amd64.go.

func addRows(h *[groupSize]int64, rows []uint16, packed []int64, codes *[lanes][]uint8) {
	addRowsGo(h, rows, packed, codes)
}

func part(rows, room []uint16, codes []uint8, split uint8) {
	right := 0
	for at, i := range rows {
		rows[at-right], room[right] = i, i
		right += number(codes[i] > split)
	}
	copy(rows[len(rows)-right:], room[:right])
}

func derive(parent, counted *[groupSize]int64) { deriveGo(parent, counted) }

func best(h *[groupSize]int64, edges int, total int64, least float64) split {
	return bestGo(h, edges, total, least)
}

func leaves(ids []uint8, t *tree, splits []int16, codes []uint8, slots int) {
	leavesGo(ids, t, splits, codes, slots)
}
