# Reads go test -json. Prints each test, without subtests, behind the seconds that it took.

/"Action":"(pass|fail)".*"Test":"[^"\/]*","Elapsed":/ {
	match($0, /"Elapsed":[0-9.]+/)
	seconds = substr($0, RSTART + 10, RLENGTH - 10)
	match($0, /"Package":"[^"]*"/)
	package = substr($0, RSTART + 11, RLENGTH - 12)
	match($0, /"Test":"[^"]*"/)
	printf "%8.2f s  %s %s\n", seconds, package, substr($0, RSTART + 8, RLENGTH - 9)
}
