package drift

import "unsafe"

// Uniform is what breaks ties.
func Uniform(n uint64) float64 { return uniform(n) }

// Bytes is what Size says.
func (d *Detector) Bytes() uint64 { return uint64(unsafe.Sizeof(*d)) + 4*uint64(cap(d.counts)) }
