package trig

// SincosGo is the Go twin of Sincos.
func SincosGo(sines, cosines, angles []float64) { sincosGo(sines, cosines, angles) }
