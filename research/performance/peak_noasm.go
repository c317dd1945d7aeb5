//go:build !amd64 || purego

package performance

// fused has no loop for this processor.
func fused(int) bool { return false }
