//go:build unix

package main_test

import "testing"

// A server lives on when the reader of its log has left.
func TestServerWithoutReaderOfItsLog(t *testing.T) {
	const untilServing = `exec "$0" "$@" 2> >(sed -u '/"serving"/q' >&2)`
	p := launchBy(t, t.TempDir(), []string{"/bin/bash", "-c", untilServing, binary})
	p.create(t)
	p.stats(t)
	p.terminate(t)
}
