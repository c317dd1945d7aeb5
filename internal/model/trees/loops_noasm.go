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

func leaves(ids []uint8, t *tree, splits []int16, codes []uint8, slots int, _ []int64) {
	leavesGo(ids, t, splits, codes, slots)
}

// next is the node after node own for a row, or own of a leaf. It has no branch to predict.
func (n *node) next(own int, row []float32) int {
	input := n.input
	if n.left == 0 {
		input = 0
	}
	next := int(n.left) + number(row[input] > n.cut)
	if n.left == 0 {
		next = own
	}
	return next
}

// sumTrees is Σ f_j(row). Eight trees descend at a time, for each step waits for the node before it.
func sumTrees(trees *[Trees]tree, row []float32) int64 {
	sum := int64(0)
	for first := 0; first < Trees; first += 8 {
		t := (*[8]tree)(trees[first:])
		a, b, c, d := t[0].nodes, t[1].nodes, t[2].nodes, t[3].nodes
		e, f, g, h := t[4].nodes, t[5].nodes, t[6].nodes, t[7].nodes
		var i, j, k, l, m, n, o, p int
		for a[i].left|b[j].left|c[k].left|d[l].left|e[m].left|f[n].left|g[o].left|h[p].left != 0 {
			i, j, k, l = a[i].next(i, row), b[j].next(j, row), c[k].next(k, row), d[l].next(l, row)
			m, n, o, p = e[m].next(m, row), f[n].next(n, row), g[o].next(o, row), h[p].next(p, row)
		}
		sum += a[i].value() + b[j].value() + c[k].value() + d[l].value()
		sum += e[m].value() + f[n].value() + g[o].value() + h[p].value()
	}
	return sum
}

func sumAbreast(rings []ring, sums *[Abreast][]int64, rows *[Abreast][]float32, _ []float32) {
	for c := range rings {
		for n, row := range rows {
			sums[n][c] = sumTrees(&rings[c].trees, row)
		}
	}
}
