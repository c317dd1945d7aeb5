package effects

import (
	"cmp"
	"math"
	"slices"
)

// Effect is the effect of a single key on an output.
type Effect struct {
	// Input is the number of the input, Key the value.
	Input int
	Key   uint64
	// Mean is μ of the best variant less the mean μ of the rows of the input, in units of labels:
	// rows do not tell what all keys of one input have in common from what all keys of another
	// have. Count is Σω of the rows of the key.
	Mean, Count float64
}

// Largest are the n largest effects of single keys on an output, by magnitude. Ties go to the lower
// input, then the lower key. It costs O(K n) for K keys.
func (e *Effects) Largest(n, output int) []Effect {
	means, counts := make([]float64, e.o.Inputs), make([]float64, e.o.Inputs)
	e.each(output, func(a Effect) {
		if a.Count > 0 {
			counts[a.Input] += a.Count
			means[a.Input] += float64(a.Count / counts[a.Input] * (a.Mean - means[a.Input]))
		}
	})
	var largest []Effect
	e.each(output, func(a Effect) {
		a.Mean -= means[a.Input]
		at, _ := slices.BinarySearchFunc(largest, a, bySize)
		if at < n {
			largest = slices.Insert(largest, at, a)
			largest = largest[:min(n, len(largest))]
		}
	})
	return largest
}

// each calls visit for the keys of single inputs.
func (e *Effects) each(output int, visit func(Effect)) {
	best := e.best(output)
	for slot := e.oldest; slot != none; slot = e.link(slot).newer {
		code, numbers := restore(e.link(slot).hash), e.numbers(slot)
		if input := int(code>>keyBits) - 1; input < e.o.Inputs {
			visit(Effect{input, code & keyMask, of(numbers, output)[best], numbers[countAt]})
		}
	}
}

func bySize(a, b Effect) int {
	return cmp.Or(cmp.Compare(math.Abs(b.Mean), math.Abs(a.Mean)), cmp.Compare(a.Input, b.Input), cmp.Compare(a.Key, b.Key))
}
