package kons

// Raising returns options by which a round raises so many ridges of a factor.
func Raising(o Options, ridges int) Options {
	o.raised = ridges
	return o
}
