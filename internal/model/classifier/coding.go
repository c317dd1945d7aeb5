package classifier

import "math"

// signs: one output stands for two classes.
func (o Options) signs() bool { return !o.Indicators && o.MaxClasses == 2 }

func (o Options) outputs(classes int) int {
	switch {
	case o.Indicators:
		return max(classes, 1)
	case o.signs():
		return 1
	default:
		return o.MaxClasses
	}
}

// raw is how many of the learner's predictions are raw values.
func (o Options) raw(predictions, classes int) int {
	if o.Indicators {
		return min(predictions, classes)
	}
	return predictions
}

// absent is the label of an output when another class was observed.
func (o Options) absent() float64 {
	if o.Indicators {
		return 0
	}
	return -1
}

func (o Options) label(output, class int) float64 {
	if class == o.of(output) {
		return 1
	}
	return o.absent()
}

func (o Options) of(output int) (class int) {
	if o.signs() {
		return 1
	}
	return output
}

// code sets the label of the output of a class. Class 0 of signs has no output.
func (o Options) code(labels []float64, class int, label float64) {
	switch {
	case !o.signs():
		labels[class] = label
	case class == 1:
		labels[0] = label
	}
}

// length is the root of the sum of the squares of the labels of a round.
func (o Options) length(classes int) float64 {
	if o.Indicators {
		return 1
	}
	return math.Sqrt(float64(o.outputs(classes)))
}

// scores returns s_k: the raw values themselves, or dst.
func (o Options) scores(dst, values []float64) []float64 {
	switch {
	case o.Indicators:
		return values
	case o.signs():
		s := (1 + values[0]) / 2
		dst[0], dst[1] = 1-s, s
	default:
		for k := range dst {
			dst[k] = (1 + values[k]) / 2
		}
	}
	return dst
}
