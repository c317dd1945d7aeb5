package cli

import "strconv"

// sameSkill is how far from 0 a skill may be that counts as the skill of the better
// baseline.
const sameSkill = 0.01

const verdictHelp = `The losses of the model stand beside the losses of two trivial predictors that
ignore the inputs: the running mean of the labels, and the last label. Skill is
1 - loss / the smaller of their losses. Above 0.01 the model is better than trivial, below
-0.01 worse, else as good. Prequential predictions are made from all earlier observations,
just before the label is learned. Served predictions are those that the client got; where
the client got none, the prequential prediction stands for it.

A classifier is evaluated by its errors, beside the class that was most frequent so far, and
the last class.`

const (
	better = "better than trivial"
	asGood = "as good as trivial"
	worse  = "worse than trivial"
)

// verdict says in words what a skill means. Trivial are the two baselines.
func verdict(skill float64) string {
	switch {
	case skill > sameSkill:
		return better
	case skill < -sameSkill:
		return worse
	default:
		return asGood
	}
}

func digits3(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + " %" }

func level(coverage float64) string {
	return strconv.FormatFloat(100*coverage, 'g', 6, 64) + " %"
}

// The words that say of which predictions a figure is.
const (
	prequential = "prequential"
	served      = "served"
)

func rate(share float64) string { return digits3(100*share) + " %" }
