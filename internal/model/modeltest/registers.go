package modeltest

import (
	"testing"

	"golang.org/x/sys/cpu"
)

// Registers returns a function that lets even cases of a test use registers of 512 bits, if the processor has them, and odd
// cases registers of 256. The test must not run in parallel with others.
func Registers(t *testing.T) (of func(number int)) {
	t.Helper()
	wide := cpu.X86.HasAVX512VBMI
	t.Cleanup(func() { cpu.X86.HasAVX512VBMI = wide })
	return func(number int) { cpu.X86.HasAVX512VBMI = wide && number%2 == 0 }
}
