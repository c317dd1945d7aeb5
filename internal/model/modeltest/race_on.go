//go:build race

package modeltest

// raceDetector is on: pools then drop what they hold, so allocations say
// nothing.
const raceDetector = true
