package awv_test

import (
	"testing"

	"hindsight/internal/model/modeltest"
)

// rounds is how many rounds of a stream a test takes: half of them in short mode.
func rounds(all int) int {
	if testing.Short() || modeltest.RaceDetector {
		return all / 2
	}
	return all
}
