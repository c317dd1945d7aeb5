package trees

func addRows(h *[groupSize]int64, rows []uint16, packed []int64, codes *[lanes][]uint8) {
	addRowsGo(h, rows, packed, codes)
}

func subtract(from, h *[groupSize]int64) { subtractGo(from, h) }

func best(h *[groupSize]int64, total int64, least float64) split { return bestGo(h, total, least) }

func leaves(ids []uint8, t *tree, codes []uint8, slots int) { leavesGo(ids, t, codes, slots) }
