//go:build !race

package modeltest

// RaceDetector is off.
const RaceDetector = false
