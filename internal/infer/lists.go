package infer

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/dataset"
)

const (
	// How many numbers a cell of an inferred vector has at most, and how many frames a column counts.
	maxNumbers, maxFrames = 8, 32
	listed                = "#, "
)

var (
	token = regexp.MustCompile(`[0-9][0-9.,]*(?:[eE][-+]?[0-9]+)?`)
	coded = regexp.MustCompile(`\pL[-_#]?$`)
)

// framed reads the numbers of a text such as 120/80, 190Nm@ 2000rpm or POINT (10.7 59.9). The frame is the text between
// them, in which # stands for a number. It is empty if the text has fewer than two numbers, or if a part looks like a part
// of a code: the digits begin with a 0, or follow a letter or a letter and a dash.
func framed(cell string, numbers *dataset.Numbers) (list []any, frame string) {
	if list, ok := parseVector(cell); ok && len(list) > 1 {
		return list, strings.Repeat(listed, len(list))
	}
	if len(cell) > maxText {
		return nil, ""
	}
	var b strings.Builder
	at := 0
	for _, m := range token.FindAllStringIndex(cell, maxNumbers+1) {
		text := strings.TrimRight(cell[m[0]:m[1]], ".,")
		between := cell[at:m[0]]
		v, _, err := parseWritten(text, numbers)
		if err != nil || isCode(text) || coded.MatchString(between) {
			return nil, ""
		}
		if before, ok := strings.CutSuffix(between, "-"); ok && strings.Trim(before[max(0, len(before)-1):], " ([,;@:") == "" {
			between, v = before, -v
		}
		list, at = append(list, v), m[0]+len(text)
		b.WriteString(between + "#")
	}
	b.WriteString(cell[at:])
	if len(list) < 2 || len(list) > maxNumbers {
		return nil, ""
	}
	return list, strings.Join(strings.Fields(b.String()), " ")
}

// frame counts the cells of one frame.
type frame struct {
	count, length, width int
	measures             bool // A code has one length, no letters or units, and no fractions.
	example              string
}

func (c *column) addFrame(cell string) {
	if c.words.count > tried && 2*c.framed < c.words.count {
		return
	}
	list, text := framed(cell, c.written)
	if text == "" {
		return
	}
	c.framed++
	f := c.frames[text]
	if f == nil && len(c.frames) == maxFrames {
		return
	}
	if f == nil {
		f = &frame{length: len(list), width: len(cell), example: strings.Clone(cell)}
		c.frames[text] = f
	}
	f.count++
	f.measures = f.measures || f.width != len(cell) || strings.Contains(text, "#+#") || strings.ContainsFunc(text, isOfUnit) ||
		slices.ContainsFunc(list, func(v any) bool { return v != math.Trunc(v.(float64)) })
}

func (c *column) bestFrame() (text string, f frame) {
	for _, t := range slices.Sorted(maps.Keys(c.frames)) {
		if c.frames[t].count > f.count {
			text, f = t, *c.frames[t]
		}
	}
	return text, f
}

func isOfUnit(r rune) bool { return r == '%' || unicode.IsLetter(r) }

// isVector reports whether the cells, of which most do not repeat, or many do not and are without letters, are numbers in one
// frame. Integers in texts of one length without letters are codes, such as 555-1234.
func (c *column) isVector(values int) bool {
	text, f := c.bestFrame()
	return f.count > 0 && f.measures && areFew(values-f.count, values) &&
		(c.hardlyRepeats() || c.different() > fewIntegers && 4*c.different() > 3*values || c.different() > ownFeatures && !strings.ContainsFunc(text, isOfUnit))
}

func (c *column) decideVector(out *Column, values int) {
	text, f := c.bestFrame()
	out.Kind, out.gaps, out.frame = Vector, true, text
	out.Input = &hindsightv1.Input{Kind: &hindsightv1.Input_Vector{Vector: &hindsightv1.VectorInput{Length: proto.Int32(int32(f.length))}}}
	out.Reason = fmt.Sprintf("%d numbers in each cell, such as %.40q", f.length, f.example)
	if odd := values - f.count; odd > 0 {
		out.odd, out.lenient = true, true
		out.Reason += "; " + oddForms(odd, values)
	}
}

func oddForms(odd, values int) string {
	return fmt.Sprintf("%d of %d cells have another form and are taken for missing values", odd, values)
}

// leftOut says why the texts of a column, of which most do not repeat another, are no input.
func (c *column) leftOut(values int) string {
	text, f := c.bestFrame()
	switch {
	case c.codes.count > 0 && c.numbers == values:
		return "codes with a leading 0, of which most do not repeat: if they are numbers, declare the column numeric"
	case c.huge.count > 0 && c.integers == values:
		return "ids from 2^53 on, of which most do not repeat: they name the row"
	case 2*f.count > values && !f.measures:
		return fmt.Sprintf("codes of one length, such as %.40q, of which most do not repeat: split the column if its parts are inputs", f.example)
	case 2*c.framed > values:
		return fmt.Sprintf("most cells have several numbers, but fewer have the form %q: split the column", text)
	case 4*c.different() <= 3*values:
		return fmt.Sprintf("%d different texts in %d cells repeat too rarely for a key: if it is one, declare the column categorical with key", c.different(), values)
	default:
		return "most cells do not repeat another: it names the row"
	}
}
