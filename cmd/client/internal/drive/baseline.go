package drive

// Baseline is a predictor that ignores the inputs. Like the model it predicts
// every label before it learns it. Its first prediction is 0. The zero value has
// learned nothing.
type Baseline struct {
	predictions []float64
	lossSum     float64
	rounds      int
}

// learnMean adds the loss of labels. Then it predicts the mean of all labels.
func (b *Baseline) learnMean(labels []float64) {
	b.addLoss(labels)
	for i, y := range labels {
		b.predictions[i] += (y - b.predictions[i]) / float64(b.rounds)
	}
}

// learnLast adds the loss of labels. Then it predicts these labels.
func (b *Baseline) learnLast(labels []float64) {
	b.addLoss(labels)
	copy(b.predictions, labels)
}

// addLoss adds the loss of labels.
func (b *Baseline) addLoss(labels []float64) {
	if b.predictions == nil {
		b.predictions = make([]float64, len(labels))
	}
	for i, y := range labels {
		miss := y - b.predictions[i]
		b.lossSum += miss * miss
	}
	b.rounds++
}

// MeanLoss returns the mean squared loss of a round, summed over the outputs. It
// is 0 without a round.
func (b *Baseline) MeanLoss() float64 {
	if b.rounds == 0 {
		return 0
	}
	return b.lossSum / float64(b.rounds)
}
