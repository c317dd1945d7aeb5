package cmd_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestDigest gives the digest of CI two runs: it prints what failed and why, counts each run
// for itself, and prints each skipped test with its reason.
func TestDigest(t *testing.T) {
	if _, err := exec.LookPath("awk"); err != nil {
		t.Skip("awk is not installed")
	}
	digest := exec.CommandContext(t.Context(), "awk", "-f", "../.ci/digest.awk")
	digest.Stdin = strings.NewReader(`go test -timeout 25m ./... -v
=== RUN   TestA
    a_test.go:5: no node
--- SKIP: TestA (0.00s)
=== RUN   TestB
=== RUN   TestB/x
    b_test.go:9: no awk
=== RUN   TestB/y
    b_test.go:10: fine
--- PASS: TestB (0.00s)
    --- SKIP: TestB/x (0.00s)
    --- PASS: TestB/y (0.00s)
=== RUN   TestLong
    b_test.go:12: make test-e2e runs it: a browser
--- SKIP: TestLong (0.00s)
=== RUN   TestOthers
    c_test.go:1: Ran 57 tests in 3.2s
--- PASS: TestOthers (0.00s)
PASS
ok  	hindsight/a	0.100s
?   	hindsight/none	[no test files]
=== RUN   TestC
    c_test.go:5: boom
--- FAIL: TestC (0.00s)
FAIL
FAIL	hindsight/c	0.1s
FAIL	hindsight/d [build failed]
FAIL
/usr/local/go/bin/go test -race -vet=off -timeout 25m $(RACE_PACKAGES) -v
=== RUN   TestB
--- PASS: TestB (0.00s)
PASS
ok  	hindsight/a	0.100s
panic: in TestMain
HINDSIGHT_E2E=1 go -C research test ./cli -v
--- PASS: TestD (0.00s)
ok  	hindsight/d	0.100s
`)
	out, err := digest.CombinedOutput()
	want := `go test -timeout 25m ./... -v
ok  	hindsight/a	0.100s
=== RUN   TestC
    c_test.go:5: boom
--- FAIL: TestC (0.00s)
FAIL
FAIL	hindsight/c	0.1s
FAIL	hindsight/d [build failed]
FAIL
ci: every test, compiled without C like a release: 3 packages, 2 tests passed, 1 failed, 2 skipped, 1 left to make test-e2e
    skipped TestA: no node
    skipped TestB/x: no awk
    TestOthers: Ran 57 tests in 3.2s
/usr/local/go/bin/go test -race -vet=off -timeout 25m $(RACE_PACKAGES) -v
ok  	hindsight/a	0.100s
panic: in TestMain
ci: no data race where goroutines run: 1 packages, 1 tests passed, 0 failed, 0 skipped
HINDSIGHT_E2E=1 go -C research test ./cli -v
ok  	hindsight/d	0.100s
ci: the long forms, and what other programs see: 1 packages, 1 tests passed, 0 failed, 0 skipped
`
	if err != nil || string(out) != want {
		t.Errorf("%v, prints\n%s\nwant\n%s", err, out, want)
	}
}
