package drive

// Baseline is a predictor that ignores the inputs, judged as the model is:
// every label is predicted before it is learned, the first one as 0. The zero
// value has learned nothing.
type Baseline struct {
	prediction float64
	lossSum    float64
	rounds     int
}

// learnMean judges a label and predicts the mean of all labels from then on.
func (b *Baseline) learnMean(label float64) {
	b.judge(label)
	b.prediction += (label - b.prediction) / float64(b.rounds)
}

// learnLast judges a label and predicts it from then on.
func (b *Baseline) learnLast(label float64) {
	b.judge(label)
	b.prediction = label
}

func (b *Baseline) judge(label float64) {
	miss := label - b.prediction
	b.lossSum += miss * miss
	b.rounds++
}

// MeanLoss returns the mean squared loss, 0 of nothing.
func (b *Baseline) MeanLoss() float64 {
	if b.rounds == 0 {
		return 0
	}
	return b.lossSum / float64(b.rounds)
}
