package effects

// Signs are the signs of the factors of a new key.
func Signs(source int, value float64) uint64 { return Permute(coded(source, keyOf(value))) }
