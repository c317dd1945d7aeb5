package scaling

import (
	"math"

	"hindsight/internal/model"
	"hindsight/internal/model/compensated"
)

// unscaleWeights converts the weights of an affine learner to the caller's units, in place:
// with the scaling s, o of an input and S, O of the label of an output,
//
//	y = (Σ w'_i (x_i − o_i) s_i + c')/S + O = Σ w_i x_i + c,
//	w_i = w'_i s_i/S,  c = (c' − Σ w'_i s_i o_i)/S + O
//
// A running scaling is the present one. After a warm-up the deviation of an input is
// 1/(2 s_i √d), so that the effect is w'_i/(2√d)/S.
func (l *Learner) unscaleWeights(weights []model.Weight) {
	a, root := &l.affine, math.Sqrt(float64(l.o.Dimension))
	var moved compensated.Sum
	for k := range weights {
		w := &weights[k]
		if w.Input == model.NoInput {
			moved.Add(w.Value)
			scaled := moved.Value() / a.LabelScale
			w.Value, moved = scaled+a.LabelOffset[w.Output], compensated.Sum{}
			continue
		}
		w.Effect /= a.LabelScale
		if l.o.Warmup > 0 {
			w.Effect = w.Value / (2 * root) / a.LabelScale
		}
		w.Value *= a.Scale[w.Input]
		moved.Add(-float64(w.Value * a.Offset[w.Input]))
		w.Value /= a.LabelScale
	}
}
