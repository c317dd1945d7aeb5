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

// decideTarget infers whether the labels are numbers or classes. With classes, numbers are
// classes.
func (c *column) decideTarget(rows int, classes bool) (*Column, error) {
	out := &Column{Name: c.name, Kind: Label}
	var reasons []string
	say := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	without := rows - c.cells + c.unknown
	values := c.cells - c.gaps
	switch n := c.different(); {
	case without == rows:
		return nil, errors.New("the target has no label: every cell is empty")
	case values > 0 && !classes && (c.numbers == values || c.numbers > 0 && c.ambiguous.count == 0 && n > fewClasses && areFew(values-c.numbers, values)):
		out.unit = c.written.Unit()
		say("%s", c.span(c.low, c.high))
		if c.converted != "" {
			say("labels are the numbers alone, such as %s of %.40q", c.plain, c.converted)
		}
		if _, _, unlike := c.written.Units(); c.words.count+unlike > 0 {
			out.odd, out.lenient = true, c.words.count > 0
			say("%s", c.oddNumbers(values))
		}
		if c.integers == values && c.low < c.high && n <= fewClasses {
			say("%d different integers: if they are classes, ask for --classes", n)
		}
		if out.counts = c.integers == values && c.low >= 0 && n > fewClasses; out.counts {
			say("whole numbers from 0 on, so that label.min of the spec is 0: predictions stay at 0 or more, and a label below 0 is rejected")
		}
		without = rows - c.numbers
	case c.ambiguous.count > 0 && areFew(c.words.count, values) && !classes:
		return nil, c.unclear()
	case c.broken.count > 0:
		return nil, fmt.Errorf("the target has texts that are not UTF-8, such as %s: convert the file", c.place(&c.broken))
	case c.long.count > 0:
		return nil, fmt.Errorf("the target has texts of up to %d bytes, such as that in %s %d; a class has at most %d", c.longest, c.unit, c.long.line, maxText)
	case c.mixed(values) && n > fewClasses && !classes:
		return nil, fmt.Errorf("%d of %d labels are numbers, and %s is none: correct it, or ask for --classes if labels are classes",
			c.numbers, values, c.place(&c.words))
	case c.zeros > 0 || n > maxClasses:
		return nil, fmt.Errorf("the target has about %d different texts, at most %d classes are possible", n, maxClasses)
	default:
		out.Kind, out.classes = Class, max(2, n)
		if n > 1 {
			say("texts, %d classes", n)
		}
		if out.odd = c.mixed(values) && !classes; out.odd {
			say("%d of %d cells are numbers, and %s is none", c.numbers, values, c.place(&c.words))
		}
		if n == 1 {
			say("the same class in every row: there is nothing to learn")
		}
	}
	switch without {
	case 0:
	case 1:
		say("1 row has no label: replay predicts it, and the model learns nothing of it")
	default:
		say("%d rows have no label: replay predicts them, and the model learns nothing of them", without)
	}
	out.Reason = strings.Join(reasons, "; ")
	return out, nil
}

// mixed reports whether most cells of a target are numbers, and some are not.
func (c *column) mixed(values int) bool { return 2*c.numbers > values && c.numbers < values }

// question asks whether a target of two integers is a class, unless --classes says so.
func (c *column) question(classes bool) string {
	if values := c.cells - c.gaps; classes || c.numbers < values || c.integers < values || c.low == c.high || c.different() != 2 {
		return ""
	}
	return fmt.Sprintf("Is %s a class? Its labels are the two numbers %g and %g. As it stands the model predicts a number.\n"+
		"As a class (--classes) it predicts one of the two, and the probability of each.", c.name, c.low, c.high)
}
