package input

import (
	"math"

	"hindsight/internal/model/exponential"
)

// symmetricLog1p is sign(v) log(1 + |v|).
func symmetricLog1p(v float64) float64 { return math.Copysign(exponential.Log1p(math.Abs(v)), v) }
