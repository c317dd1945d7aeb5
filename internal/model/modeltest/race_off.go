//go:build !race

package modeltest

const raceDetector = false
