# Reads the runs of go test -v of a runner. Prints the closing line of each package and the
# whole output of a package that failed. After each run it prints what the run proved, what
# the runners of other languages reported, and each skipped test with its reason. Tests that
# only make test-e2e runs are counted.

function finish() {
	if (run != "") {
		printf "ci: %s: %d packages, %d tests passed, %d failed, %d skipped", run, packages, passed, failed, skipped
		printf "%s\n%s", later ? ", " later " left to make test-e2e" : "", notes
	}
	packages = passed = failed = skipped = later = 0
	notes = text = ""
	delete said
}

/^([^ ]*\/)?go (-C [^ ]+ )?test / {
	printf "%s", text
	finish()
	run = "every package, compiled without C like a release"
	if (/ -race /) run = "no data race where goroutines run"
	print
	next
}

{ text = text $0 "\n" }

/^=== (RUN|CONT|NAME) / { test = $3; next }

/^ +[A-Za-z0-9_]+\.go:[0-9]+: / {
	said[test] = $0
	sub(/^ +[^ ]+ /, "", said[test])
	if (said[test] ~ /^Ran [0-9]+ tests|^[0-9]+ tests in|\.\.\. skipped /) {
		notes = notes "    " test ": " said[test] "\n"
	}
}

/^--- PASS: / { passed++ }
/^--- FAIL: / { failed++ }
/^ *--- SKIP: / {
	if (said[$3] ~ /make test-e2e/) {
		later++
	} else {
		skipped++
		notes = notes "    skipped " $3 ": " said[$3] "\n"
	}
}

/^ok  *\t/ { packages++; print; text = ""; delete said; fflush() }
/^\?  *\t/ { text = "" }
/^FAIL\t/ { packages++; printf "%s", text; text = ""; delete said; fflush() }

END { printf "%s", text; finish() }
