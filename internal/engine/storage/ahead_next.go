//go:build nextformat

package storage

// Tests of upgrades build the next program with the tag nextformat. Its format differs only by the number.
const ahead = 1
