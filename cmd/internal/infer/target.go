package infer

import (
	"errors"
	"fmt"
	"strings"
)

const (
	// How many classes a target may have: beyond that it is likely no class.
	maxClasses = maxCategories
	// Of how many different integers a target with numbers may be one of classes.
	fewClasses = fewIntegers
)

// decideTarget says whether the labels are numbers or classes. Classes says that
// numbers are texts of classes.
func (c *column) decideTarget(rows int, classes bool) (*Column, error) {
	out := &Column{Name: c.name, Kind: Label}
	values := c.cells - c.gaps
	var reasons []string
	say := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	without := rows - c.cells
	switch n := c.different(); {
	case c.cells == 0:
		return nil, errors.New("the target has no label: every cell is empty")
	case c.numbers == values && values > 0 && !classes:
		say("numbers from %g to %g", c.low, c.high)
		if c.integers == values && c.low < c.high && n <= fewClasses {
			say("%d different integers: if they are classes, ask for --classes", n)
		}
		without += c.gaps
	case c.broken:
		return nil, errors.New("the target has texts that are not UTF-8: convert the file")
	case c.long > maxText:
		return nil, fmt.Errorf("the target has texts of up to %d bytes; a class has at most %d", c.long, maxText)
	case c.zeros > 0 || n > maxClasses:
		return nil, fmt.Errorf("the target has about %d different texts, at most %d classes are possible%s", n, maxClasses, c.mixed(values))
	default:
		out.Kind, out.classes = Class, max(2, n)
		say("texts, %d classes%s", n, c.mixed(values))
		if n == 1 {
			say("the same class in every row: there is nothing to learn")
		}
	}
	if without > 0 {
		say("%d rows have no label: replay stops at such a row", without)
	}
	out.Reason = strings.Join(reasons, "; ")
	return out, nil
}

// mixed names a text among the cells of a target most of which are numbers.
func (c *column) mixed(values int) string {
	if 2*c.numbers <= values || c.numbers == values {
		return ""
	}
	return fmt.Sprintf("; %d of %d cells are numbers, %.40q is none", c.numbers, values, c.words)
}
