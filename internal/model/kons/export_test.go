package kons

// Raising returns options with which a round raises the given number of ridges of a factor.
func Raising(o Options, ridges int) Options {
	o.raised = ridges
	return o
}
