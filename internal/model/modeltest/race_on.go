//go:build race

package modeltest

// RaceDetector is on: pools then drop what they hold, so allocations say
// nothing.
const RaceDetector = true
