// Package nearest finds the name that a misspelled name meant.
package nearest

import (
	"fmt"
	"strings"
)

// Meant returns "; is it ...?" with the candidate that Name finds, or nothing.
func Meant(name string, candidates []string) string {
	best := Name(name, candidates)
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; is it %q?", best)
}

// Name returns the nearest candidate, or nothing if more than a third of the characters differ; of a short name up to
// two, and at most half.
func Name(name string, candidates []string) string {
	n := len([]rune(name))
	best, least := "", min(n/2, max(2, n/3))+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(name), strings.ToLower(c)); d < least {
			best, least = c, d
		}
	}
	return best
}

// distance is the Levenshtein distance of two texts.
func distance(a, b string) int {
	to := []rune(b)
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range []rune(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j, y := range to {
			cost := diagonal
			if x != y {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(to)]
}
