//go:build !purego

package trees

import "golang.org/x/sys/cpu"

// The loops below have the same results as their twins in Go: integers have no rounding,
// and best does the operations of bestGo on four inputs at once.

// wide reports whether to use registers of 512 bits, as in package loops.
func wide() bool { return cpu.X86.HasAVX512VBMI }

// addRows adds rows to the histograms of lanes inputs.
func addRows(h *[groupSize]int64, rows []uint16, packed []int64, codes *[lanes][]uint8) {
	if len(rows) == 0 {
		return
	}
	addRowsAMD64(&h[0], &rows[0], len(rows), &packed[0], &codes[0][0], &codes[1][0], &codes[2][0], &codes[3][0])
}

// part moves the rows that go left to the front, both sides in order. The slice room has space for the rows.
func part(rows, room []uint16, codes []uint8, split uint8) {
	if len(rows) == 0 {
		return
	}
	right := partAMD64(&rows[0], len(rows), &room[0], &codes[0], split)
	copy(rows[len(rows)-right:], room[:right])
}

// derive subtracts the histogram of a part from its parent's.
func derive(parent, counted *[groupSize]int64) {
	if !cpu.X86.HasAVX2 {
		deriveGo(parent, counted)
		return
	}
	deriveAVX2(&parent[0], &counted[0])
}

// best is the best split of a histogram of inputs with at most so many cut points, whose bins add up to
// total, with at least so many rows on each side; its score is 0 without a split.
func best(h *[groupSize]int64, edges int, total int64, least float64) split {
	if !cpu.X86.HasAVX2 || edges == 0 {
		return bestGo(h, edges, total, least)
	}
	var scores [2 * lanes]float64
	var at [2 * lanes]int64
	sum, count := float64(sumOf(total)), float64(countOf(total))
	if wide() {
		bestAVX512(&h[0], (edges+1)/2, sum, count, least, &scores[0], &at[0])
	} else {
		bestAVX2(&h[0], edges, sum, count, least, &scores[0], &at[0])
	}
	var s split
	for lane := range lanes {
		for i := lane; i < len(scores); i += lanes {
			if score, code := scores[i], int(at[i]); score > s.score || score == s.score && lane == s.lane && code < s.code {
				s = split{score, lane, code}
			}
		}
	}
	return s
}

// leafStep is a split of a tree: rows go right if their code and the limit add up to more than 254.
type leafStep struct {
	offset, limit, left, node int64
}

// leaves writes the leaf of every slot. A row goes left at a node if its code is at most splits of the
// node. There are slots codes an input. The slices ids and codes have space for whole blocks, and room has leafRoom numbers.
func leaves(ids []uint8, t *tree, splits []int16, codes []uint8, slots int, room []int64) {
	if !cpu.X86.HasAVX2 || len(ids) == 0 {
		leavesGo(ids, t, splits, codes, slots)
		return
	}
	var steps [(maxNodes + 1) / 2]leafStep
	const words = block / 8
	values := room[:leafRoom] // A byte a row.
	count := 0
	for i := t.size - 1; i >= 0; i-- { // Children first.
		if n := t.nodes[i]; n.left != 0 {
			limit := min(254-int64(splits[i]), 255) // 255 if all rows go right.
			steps[count] = leafStep{int64(n.input) * int64(slots), limit, int64(n.left) * block, int64(i) * block}
			count++
			continue
		}
		all := int64(uint64(i) * 0x0101010101010101)
		*(*[words]int64)(values[i*words:]) = [words]int64{all, all, all, all, all, all, all, all}
	}
	leavesAVX2(&ids[0], &values[0], &steps[0], count, &codes[0], (len(ids)+block-1)/block)
}

// sumTrees is Σ f_j(row). Eight trees descend at a time, for each step waits for the node before it.
func sumTrees(trees *[Trees]tree, row []float32) int64 { return sumTreesAMD64(&trees[0], &row[0]) }

// sumTreesAMD64 is sumTrees of the trees from the first on.
//
//go:noescape
func sumTreesAMD64(trees *tree, row *float32) int64

// sumAbreast is sumTrees of every ring and row.
func sumAbreast(rings []ring, sums *[Abreast][]int64, rows *[Abreast][]float32, room []float32) {
	for n, row := range rows {
		for j, v := range row {
			room[j*Abreast+n] = v
		}
	}
	for c := range rings {
		var each [Abreast]int64
		sumAbreastAMD64(&rings[c].trees[0], &room[0], &each[0])
		for n, sum := range each {
			sums[n][c] = sum
		}
	}
}

// sumAbreastAMD64 writes the sums of the trees of a ring for Abreast rows. The rows lie column by column.
//
//go:noescape
func sumAbreastAMD64(trees *tree, rows *float32, sums *int64)

// addRowsAMD64 is addRowsGo of n rows, not 0.
//
//go:noescape
func addRowsAMD64(h *int64, rows *uint16, n int, packed *int64, first, second, third, fourth *uint8)

// partAMD64 is part of n rows, not 0, but leaves the rows that go right in the room and returns their number.
//
//go:noescape
func partAMD64(rows *uint16, n int, room *uint16, codes *uint8, split uint8) (right int)

// deriveAVX2 is deriveGo.
//
//go:noescape
func deriveAVX2(parent, counted *int64)

// bestAVX2 is the best split of each lane at the first edges cut points, not 0.
//
//go:noescape
func bestAVX2(h *int64, edges int, sum, count, least float64, scores *float64, at *int64)

// bestAVX512 finds the best split of each lane twice: among the cut points 0, 2, 4 …, and among 1, 3, 5 … There are
// pairs > 0 of them. If the number of cut points is odd, the last bin stands for the missing one; a split behind it
// leaves no row on the right, and so is never the best.
//
//go:noescape
func bestAVX512(h *int64, pairs int, sum, count, least float64, scores *float64, at *int64)

// leavesAVX2 takes blocks of rows through count splits.
//
//go:noescape
func leavesAVX2(ids *uint8, values *int64, steps *leafStep, count int, codes *uint8, blocks int)
