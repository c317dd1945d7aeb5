//go:build !purego

package performance

import "golang.org/x/sys/cpu"

// fused does n turns of fusedFlops each, at the peak of the processor's vectors of four. It returns
// false if the processor has none.
func fused(n int) bool {
	if cpu.X86.HasFMA && cpu.X86.HasAVX2 {
		fuse(n)
		return true
	}
	return false
}

// fuse is fused.
//
//go:noescape
func fuse(n int)
