//go:build !nextformat

package storage

// ahead is how many formats this program writes beside the oldest.
const ahead = 0
