package awv

import "math"

// WholeHistory is the Window that keeps every round, as eq. (4) of the paper does.
const WholeHistory = math.MaxInt

// Centres are copies of the dictionary's centres, in the order in which they
// were added.
func (n *Nystrom) Centres() [][]float64 {
	d := n.dictionary.Dimension()
	flat := n.dictionary.Centres()
	out := make([][]float64, 0, n.dictionary.Size())
	for at := 0; at < len(flat); at += d {
		out = append(out, append([]float64(nil), flat[at:at+d]...))
	}
	return out
}
