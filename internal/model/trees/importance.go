package trees

// Importance is how much a group of columns of the window matters.
type Importance struct {
	// Gain is the share of the group in Σ n_l n_r/(n_l+n_r) (m_l − m_r)² over all splits, m
	// being the means of the tree on the two sides and n the numbers of their rows.
	Gain float64
	// Permutation is how much the mean squared error grows when the rows exchange their values
	// of the group, in variances of the label.
	Permutation float64
}

const (
	// An importance is of at most mostSample rows, and of at least leastSample rows if the
	// predictions would be more than mostPredictions.
	mostSample, leastSample, mostPredictions = 512, 64, 16384
)

// Importances are the importances of groups of columns, of which columns[j] has groups[j] < count, for
// the mean of the columns' predictions with the weights, which sum to 1. It costs
// O(count · rows) predictions, and calls pause after each group.
func (f *Forest) Importances(groups []int, count int, weights []float64, pause func()) []Importance {
	out := make([]Importance, count)
	rows := f.sample(count)
	if len(rows) < 2 {
		return out
	}
	f.gains(out, groups, weights, rows)
	mean, variance := 0.0, 0.0
	for i, slot := range rows {
		step := f.w.Labels[slot] - mean
		mean += step / float64(i+1)
		variance += float64(step * (f.w.Labels[slot] - mean))
	}
	if !(variance > 0) {
		return out
	}
	x, sums, said := make([]float32, f.w.Columns()), make([]int64, len(f.rings)), make([]float64, len(f.rings))
	loss := func(group int) float64 {
		total := 0.0
		for i, slot := range rows {
			// Half the sample apart: neighbouring rows may have nearly one value.
			other := rows[(i+len(rows)/2)%len(rows)]
			f.w.Read(x, slot)
			for j := range x {
				if groups[j] == group {
					x[j] = f.w.At(other, j)
				}
			}
			served := f.layout.Served()
			f.Sum(sums, x)
			f.Predict(said, sums, x, f.w.Value(served, x[served]))
			miss := f.w.Labels[slot]
			for c, w := range weights {
				miss -= float64(w * said[c])
			}
			total += float64(miss * miss)
		}
		return total
	}
	least := loss(count)
	for g := range out {
		out[g].Permutation = (loss(g) - least) / variance
		if pause != nil {
			pause()
		}
	}
	return out
}

// sample are slots of evenly spread rows of the window.
func (f *Forest) sample(groups int) []int {
	filled := f.w.Len()
	most := min(filled, mostSample, max(leastSample, mostPredictions/(groups+1)))
	rows := make([]int, most)
	for i := range rows {
		rows[i] = f.w.Slot(i * filled / most)
	}
	return rows
}

func (f *Forest) gains(out []Importance, groups []int, weights []float64, rows []int) {
	counts, sums := make([]float64, maxNodes), make([]float64, maxNodes)
	total := 0.0
	for c := range f.rings {
		for i := range f.rings[c].trees {
			t := &f.rings[c].trees[i]
			clear(counts)
			for _, slot := range rows {
				counts[f.leafOf(t, slot)]++
			}
			for k := t.size - 1; k >= 0; k-- {
				n := t.nodes[k]
				if n.left == 0 {
					sums[k] = counts[k] * float64(n.value()) / one
					continue
				}
				l, r := int(n.left), int(n.left)+1
				counts[k], sums[k] = counts[l]+counts[r], sums[l]+sums[r]
				if counts[l] == 0 || counts[r] == 0 {
					continue
				}
				apart := sums[l]/counts[l] - sums[r]/counts[r]
				gain := weights[c] * counts[l] * counts[r] / counts[k] * apart * apart
				out[groups[n.input]].Gain += gain
				total += gain
			}
		}
	}
	for g := range out {
		if total > 0 {
			out[g].Gain /= total
		}
	}
}
