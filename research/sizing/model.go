package sizing

import (
	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// Model is what a spec needs.
type Model struct {
	Features                   int
	StateBytes                 uint64 // the largest size of the learner's state
	PredictFlops, ObserveFlops uint64 // multiply-adds of a call
	Dimension                  int    // numbers of an input
	InputBytes                 int    // of an input in the log
	Outputs                    int    // labels of an observation, 0 of a classifier
	Levels                     int    // prediction intervals
	Experts                    int    // experts in the history
	Classes                    int    // as many as the spec allows, unless the caller knows better
	Advice                     int    // numbers that the learner wants back with a label
}

// Sizes of what auto keeps beside its state, with the default of max_microseconds; fewer
// experts take less.
const (
	autoExperts = 54
	autoAdvice  = 8 // Numbers of an output beside those of the experts.
)

// Of reads the answer of ValidateSpec.
func Of(v *hindsightv1.ValidateSpecResponse) *Model {
	spec := v.GetSpec()
	m := &Model{
		Features: int(v.GetFeatures()), StateBytes: v.GetStateBytes(),
		PredictFlops: v.GetPredictFlops(), ObserveFlops: v.GetObserveFlops(),
		Dimension: int(spec.GetDimension()), Outputs: int(max(1, spec.GetOutputs())),
		Levels: len(spec.GetCoverage()), Classes: int(spec.GetClasses().GetMaxClasses()),
	}
	m.InputBytes = 2 + word*m.Dimension
	if inputs := spec.GetInputs(); len(inputs) > 0 {
		m.InputBytes, m.Dimension = 2, 0
		for _, input := range inputs {
			values, bytes := input.GetVector().GetLength(), int32(recordValue)
			if input.GetVector() != nil {
				bytes = word*values + 2
			}
			m.Dimension += int(max(1, values))
			m.InputBytes += int(bytes)
		}
	}
	if auto := spec.GetAuto(); auto != nil {
		m.Experts = autoExperts
		m.Advice = 1 + int(auto.GetLags()) + m.Outputs*(autoAdvice+autoExperts)
	}
	if m.Classes > 0 {
		m.Outputs = 0
	}
	return m
}

// Sizes in bytes. Keys, values and their order are those of docs/format.
const (
	word = 8
	// A named input, of whatever kind, takes about so much in a record.
	recordValue = 10
	// An id that a client or the server draws has 36 bytes, and its length.
	idBytes = 36
	text    = idBytes + 1
	// A row of the store has its kind and the lengths of key and value before it, and a
	// commit of the store a head of its own.
	lengths = 4
	commit  = 24
	// A class is about so long.
	classText = 12
)

// targets are the numbers of the labels, or of the classes.
func (m *Model) targets() int {
	if m.Classes > 0 {
		return classText
	}
	return 1 + word*m.Outputs
}

// baselines is the size of the baselines' predictions, which the account wants back with a label.
func (m *Model) baselines() int {
	numbers := 2 * m.Outputs
	if m.Classes > 0 {
		numbers = 2
	}
	if m.Levels > 0 {
		numbers += m.Outputs * (1 + m.Levels)
	}
	return 1 + word*numbers
}

// prediction is the size of a prediction: a number for each output, or the raw values of a
// classifier, its class and the probabilities.
func (m *Model) prediction() int {
	if m.Classes > 0 {
		return 3 + word*(m.raw()+m.Classes)
	}
	return word * m.Outputs
}

// raw is how many raw values a classifier has.
func (m *Model) raw() int {
	if m.Classes == 2 {
		return 1
	}
	return m.Classes
}

// advice is what the learner wants back with a label.
func (m *Model) advice() int { return 1 + word*m.Advice }

// logRow is the commit record of an observation that was predicted. In a batch several
// share one record, and take less.
func (m *Model) logRow() float64 {
	const key, checked, record = 1 + 8 + 8, 8 + 4, 1 + 8 + 1
	observation := 1 + text + m.InputBytes + m.targets() + m.prediction() + word + m.baselines() + m.advice()
	return float64(commit + lengths + key + checked + record + observation)
}

// idRows are the remembered observation and its entry in the index by age.
func (m *Model) idRows() float64 {
	const key, aged = 1 + 8 + idBytes, 1 + 8 + 8 + idBytes
	outputs := 2 * word * m.Outputs
	if m.Classes > 0 {
		outputs = 2 * classText
	}
	value := word + 2 + 32 + word + outputs + 4*word + word
	return float64(lengths + key + value + lengths + aged)
}

// pendingRows are the pending prediction and its entry in the index by expiry.
func (m *Model) pendingRows() float64 {
	const key, expiry = 1 + 8 + idBytes, 1 + 8 + 8 + idBytes
	errors := 1 + word*m.Outputs
	if m.Classes > 0 {
		errors = 1 + classText*m.Classes // The names of the classes; it has no errors.
	}
	value := word + 2 + m.prediction() + errors + 3*word + m.InputBytes + m.baselines() + m.advice()
	return float64(commit + lengths + key + value + lengths + expiry)
}

// figures is what a model takes in memory beside the learner's state: the account of its
// predictions, the drift detector, its history once that is full, and the engine's own.
func (m *Model) figures() float64 {
	const (
		engine, account, blocks, drift = 2560, 400, 56 * 21, 200 + 4*128
		level, levelRing, output       = 304, 128, 96 + 800 + 16
		history, points                = 176 + 24*8, 255
	)
	row := 2 + 3 + 6 + (m.Experts+1)/2
	if m.Classes > 0 {
		row = 2 + 3 + 12 + (m.Experts+1)/2
	}
	if m.Levels > 0 {
		row += 1 + m.Levels
	}
	size := engine + account + blocks + drift + history + 4*points*row
	if m.Levels > 0 {
		size += m.Outputs * (output + m.Levels*(level+levelRing))
	}
	return float64(size + 120*m.Classes)
}
