# Reads the runs of go test -v of a runner. Prints the closing line of each package and the
# whole output of a package that failed. After each run it prints what the run proved, what
# the runners of other languages reported, and each skipped test with its reason. Tests that
# only make test-e2e runs are counted. The file failures gets the name and the first lines of each test
# that failed, and the last lines of a package that failed without such a test.

function package(	k, n, all) {
	for (k = 1; k <= bad; k++) printf "%s\n%s", names[k], first[names[k]] >>failures
	if (!bad) {
		print $2 >>failures
		n = split(text, all, "\n")
		for (k = (n > 40 ? n - 40 : 1); k < n; k++) print all[k] >>failures
	}
	printf "%s", text
}

function clear() {
	text = ""
	bad = 0
	delete said
	delete first
	delete count
}

function finish() {
	if (run != "") {
		printf "ci: %s: %d packages, %d tests passed, %d failed, %d skipped", run, packages, passed, failed, skipped
		printf "%s\n%s", later ? ", " later " left to make test-e2e" : "", notes
	}
	packages = passed = failed = skipped = later = 0
	notes = ""
	clear()
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

!/^ *(---|===) / && count[test]++ < 40 { first[test] = first[test] $0 "\n" }

/^ +[A-Za-z0-9_]+\.go:[0-9]+: / {
	said[test] = $0
	sub(/^ +[^ ]+ /, "", said[test])
	if (said[test] ~ /^Ran [0-9]+ tests|^[0-9]+ tests in|\.\.\. skipped /) {
		notes = notes "    " test ": " said[test] "\n"
	}
}

/^--- PASS: / { passed++ }
/^--- FAIL: / { failed++ }
/^ *--- FAIL: / { names[++bad] = test = $3 }
/^ *--- SKIP: / {
	if (said[$3] ~ /make test-e2e/) {
		later++
	} else {
		skipped++
		notes = notes "    skipped " $3 ": " said[$3] "\n"
	}
}

/^ok  *\t/ { packages++; print; clear(); fflush() }
/^\?  *\t/ { clear() }
/^FAIL\t/ { packages++; package(); clear(); fflush() }

END { printf "%s", text; finish() }
