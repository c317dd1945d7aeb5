package input

// Log1p is what log1p: true does to a number.
func Log1p(v float64) float64 { return symmetricLog1p(v) }

// Angles are those of the three cycles.
func (t Time) Angles() (hour, week, year float64) {
	return hourOfDay.angle(t), dayOfWeek.angle(t), dayOfYear.angle(t)
}

// Distance is the distance of two names.
func Distance(a, b string) int { return distance(a, b) }
