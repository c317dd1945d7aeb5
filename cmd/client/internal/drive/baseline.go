package drive

// Baseline is a predictor that ignores the inputs, judged as the model is:
// every label is predicted before it is learned, the first ones as 0. The zero
// value has learned nothing.
type Baseline struct {
	predictions []float64
	lossSum     float64
	rounds      int
}

// learnMean judges labels and predicts the means of all labels from then on.
func (b *Baseline) learnMean(labels []float64) {
	b.judge(labels)
	for i, y := range labels {
		b.predictions[i] += (y - b.predictions[i]) / float64(b.rounds)
	}
}

// learnLast judges labels and predicts them from then on.
func (b *Baseline) learnLast(labels []float64) {
	b.judge(labels)
	copy(b.predictions, labels)
}

func (b *Baseline) judge(labels []float64) {
	if b.predictions == nil {
		b.predictions = make([]float64, len(labels))
	}
	for i, y := range labels {
		miss := y - b.predictions[i]
		b.lossSum += miss * miss
	}
	b.rounds++
}

// MeanLoss returns the mean over the rounds of the squared loss, summed over the
// outputs; 0 of nothing.
func (b *Baseline) MeanLoss() float64 {
	if b.rounds == 0 {
		return 0
	}
	return b.lossSum / float64(b.rounds)
}
