package infer

import (
	"fmt"
	"strings"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// isNumber reports whether the values are numbers but for some cells: words, codes, and integers that
// are ids.
func (c *column) isNumber(values int) bool {
	if c.numbers == 0 || c.ambiguous.count > 0 || !areSome(values-c.numbers-c.beyond, values) && !c.isMeasure() {
		return false
	}
	// Codes, for example postal codes, have one width.
	codes := c.codes.count > 0 && (c.width >= 0 || !areFew(c.codes.count, values)) && (!c.hardlyRepeats() || !c.labelsFollow())
	ids := c.huge.count > 0 && c.integers == c.numbers && !c.leavesHuge(values)
	return !codes && !ids
}

// fewFractions is a number of fractions that may be categories.
const fewFractions = 4

// isMeasure reports whether one word, such as Varies with device, or numbers of other units, are among numbers that measure:
// fractions, units, or as many different integers as no class has.
func (c *column) isMeasure() bool {
	oneWord := c.words.count > 0 && !c.words.mixed
	if c.different() > fewIntegers {
		return oneWord || c.hasOtherUnits()
	}
	return oneWord && c.integers < c.numbers && c.different() > fewFractions
}

// hasOtherUnits reports whether the words are numbers of other units, and fewer than the numbers.
func (c *column) hasOtherUnits() bool {
	unit, _, unlike := c.written.Units() // 7 OAK AVE is an address.
	return c.words.count > 0 && !strings.Contains(unit, " ") && c.words.count < c.numbers && areFew(c.words.count-unlike, unlike)
}

// leavesHuge reports whether a few integers that no number has exactly are missing values of a column of
// integers.
func (c *column) leavesHuge(values int) bool {
	return c.huge.count > 0 && c.integers == c.numbers && areFew(c.huge.count, values)
}

// oddNumbers names the words among numbers, or two of several currencies.
func (c *column) oddNumbers(values int) string {
	unit, other, unlike := c.written.Units()
	if c.words.count == 0 {
		return fmt.Sprintf("amounts in several currencies, such as %s and %s, are taken as they are: convert them into one", unit, other)
	}
	kind := "number"
	switch {
	case c.beyond > 0:
		kind = fmt.Sprintf("number of a magnitude of at most %g", largest)
	case unlike > 0:
		kind = "number of the unit " + unit
	}
	return c.missing(&c.words, values, kind)
}

// span is the range of the numbers, with their unit.
func (c *column) span(low, high float64) string {
	text := fmt.Sprintf("numbers from %g to %g", low+0, high+0) // No -0.
	if unit := c.written.Unit(); unit != "" {
		text += " of the unit " + unit
	}
	return text
}

func (c *column) decideNumber(out *Column) {
	if c.namesRow(c.cells - c.gaps) {
		out.Kind, out.Reason = LeftOut, "ids, by the name of the column or by their length, of which most do not repeat: they name the row"
		return
	}
	out.Kind, out.gaps = Number, true
	in := &hindsightv1.NumericInput{}
	if unit := c.written.Unit(); unit != "" {
		in.Unit = &unit
	}
	out.Input = &hindsightv1.Input{Kind: &hindsightv1.Input_Numeric{Numeric: in}}
	low, high := c.low, c.high
	if c.leavesHuge(c.cells - c.gaps) {
		low, high = c.lowExact, c.highExact
	}
	out.Reason = c.span(low, high)
	switch {
	case low == high:
		out.Reason = fmt.Sprintf("the same number, %g, in every row: it tells nothing", low)
	case c.integers == c.numbers && c.different() <= fewIntegers && c.converted == "" && !c.evidence().depend:
		out.Reason += fmt.Sprintf(", %d different integers: if they are codes without an order, make it categorical", c.different())
	}
}
