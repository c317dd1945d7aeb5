package infer

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/dataset"
)

// Integers name things (users, stores, products) or measure something (grades, counts, years). The
// labels tell the two apart: the labels of neighboring measures are alike, the labels of neighboring names
// are not. Of values v_1 < … < v_d with n_k labels of mean m_k, n and m over all, and s² the
// variance of the labels of one value:
//
//	B    = Σ n_k (m_k − m)²
//	F    = B / (d − 1) / s²
//	L    = (Σ n_k (v_k − v)(m_k − m))² / Σ n_k (v_k − v)² / B
//	D(g) = Σ_k w [(m_k − m_{k+g})² − s² (1/n_k + 1/n_{k+g})] / Σ_k w
//	w    = min(n_k n_{k+g} / (n_k + n_{k+g}), 20)
//
// F is near 1 if labels do not depend on the value; its deviation is then near
// √(2/(d−1) + 2/(n−d)). L is the share of a straight line in the dependence. D(g) estimates the
// mean squared difference between the labels of values that are g places apart, so that D(1) over
// the mean of D(d/3), D(d/2) and D(2d/3) is near 0 for measures and near 1 for names.
//
// On the 56 integer columns of 12 public and 6 synthetic streams that ratio was above 0.64 for names
// whose cells repeat. It was below 0.5 for measures but the size of a lot (0.63, few repeats) and
// an hour (0.69). L was above 0.6 for grades, rooms and bathrooms, and below 0.5 for hours, months
// and seasons, which as numbers cost auto 2.6 % of its root mean squared error on one stream.
const (
	// Labels depend on the value if F is so many deviations above 1.
	evident = 5
	// Ratios below ordered are ratios of measures, from orderless on ratios of names, and from shuffled on if a name has
	// two to four cells; a ratio takes leastValues, and a pair has at most the weight mostWeight.
	ordered, orderless      = 0.4, 0.5
	shuffled                = 0.8
	leastValues, mostWeight = 8, 20
	// Few integers on which labels depend and of whose B a line has less than straight are
	// categories: at most fewIntegers of them, with cellsEach cells each in the mean.
	straight               = 0.5
	fewIntegers, cellsEach = 31, 30
)

// tally sums the labels of the cells of one text.
type tally struct {
	n, sum, squares float64
}

// label is a number that labels are compared by: the label, or whether a class is the first one.
// Known reports whether the row has a label.
type label struct {
	value float64
	known bool
}

type labels struct {
	column *column
	first  string
	origin float64
	begun  bool
}

func (l *labels) read(cell string) label {
	class, err := dataset.Class(cell)
	if err != nil {
		return label{}
	}
	v, _, err := parseWritten(cell, l.column.written)
	if !l.begun {
		l.begun, l.first, l.origin = true, strings.Clone(class), v
	}
	switch {
	case err == nil:
		return label{v - l.origin, true}
	case class == l.first:
		return label{1, true}
	default:
		return label{0, true}
	}
}

// evidence is what labels say of the values of a column.
type evidence struct {
	// depend reports whether labels depend on the value; line is then L.
	depend bool
	line   float64
	// ratio is D(1) over D of distant values, if compared.
	ratio    float64
	compared bool
}

type level struct{ v, n, mean float64 }

// levels are the values of a column of numbers that have labels, ascending, and the sum of squares
// of the labels about the means.
func (c *column) levels() (levels []level, within float64) {
	for _, text := range slices.Sorted(maps.Keys(c.texts)) {
		t := c.texts[text]
		if v, _, err := parseWritten(text, c.written); err == nil && t.n > 0 {
			levels = append(levels, level{v, t.n, t.sum / t.n})
			within += max(0, t.squares-t.sum*t.sum/t.n)
		}
	}
	slices.SortStableFunc(levels, func(a, b level) int { return cmp.Compare(a.v, b.v) })
	return levels, within
}

func (c *column) evidence() (e evidence) {
	levels, within := c.levels()
	var n, mean, center float64
	for _, l := range levels {
		n, mean, center = n+l.n, mean+l.n*l.mean, center+l.n*l.v
	}
	d := float64(len(levels))
	if d < 3 || n <= d {
		return e
	}
	mean, center = mean/n, center/n
	var between, along, spread float64
	for _, l := range levels {
		between += l.n * (l.mean - mean) * (l.mean - mean)
		along += l.n * (l.v - center) * (l.mean - mean)
		spread += l.n * (l.v - center) * (l.v - center)
	}
	variance := within / (n - d)
	if e.depend = depend(d, n, between, within); !e.depend {
		return e
	}
	e.line = along * along / spread / between
	if len(levels) < leastValues {
		return e
	}
	third, half := len(levels)/3, len(levels)/2
	distant := (apart(levels, third, variance) + apart(levels, half, variance) + apart(levels, 2*len(levels)/3, variance)) / 3
	if e.compared = distant > 0; e.compared {
		e.ratio = apart(levels, 1, variance) / distant
	}
	return e
}

// depend reports whether F is so many deviations above 1 that n labels depend on d values.
func depend(d, n, between, within float64) bool {
	return between/(d-1) > (1+evident*math.Sqrt(2/(d-1)+2/(n-d)))*within/(n-d)
}

func (c *column) labelsDepend() bool {
	var d, n, sum, squares, between float64
	for _, text := range slices.Sorted(maps.Keys(c.texts)) {
		if t := c.texts[text]; t.n > 0 {
			d, n, sum, squares, between = d+1, n+t.n, sum+t.sum, squares+t.squares, between+t.sum*t.sum/t.n
		}
	}
	return d > 1 && n > d && depend(d, n, between-sum*sum/n, max(0, squares-between))
}

// labelsFollow reports whether labels follow the order of values that hardly repeat: von Neumann's ratio, of the squared
// differences between neighbors to twice the sum of squares, is near 1 with deviation 1/√d if they do not.
func (c *column) labelsFollow() bool {
	levels, _ := c.levels()
	d := float64(len(levels))
	var mean, differences, squares float64
	for _, l := range levels {
		mean += l.mean / d
	}
	for k, l := range levels {
		squares += (l.mean - mean) * (l.mean - mean)
		if k > 0 {
			differences += (l.mean - levels[k-1].mean) * (l.mean - levels[k-1].mean)
		}
	}
	return (2*squares-differences)*math.Sqrt(d) > evident*2*squares
}

// apart is D(g).
func apart(levels []level, g int, variance float64) float64 {
	difference, weights := 0.0, 0.0
	for k, a := range levels[:len(levels)-g] {
		b := levels[k+g]
		w := min(a.n*b.n/(a.n+b.n), mostWeight)
		difference += w * ((a.mean-b.mean)*(a.mean-b.mean) - variance*(1/a.n+1/b.n))
		weights += w
	}
	return difference / weights
}

// nameWords end the names of columns that name things.
func nameWords() []string {
	return []string{
		"account", "agent", "barcode", "client", "code", "customer", "device", "doc", "document", "driver", "ean", "employee", "id", "ids", "imei", "isbn",
		"item", "member", "merchant", "patient", "phone", "player", "postal", "postcode", "product", "pupil", "seller", "sensor",
		"shop", "sku", "ssn", "station", "store", "student", "teacher", "team", "uid", "upc", "user", "vehicle", "vendor", "zip",
		"zipcode", "zone",
	}
}

// namesThings reports whether the last word of the column's name names things, or the one before a number, as in driver_no.
func (c *column) namesThings() bool {
	word := lastWord(c.name)
	if slices.Contains(numberWords(), word) {
		name := strings.ToLower(c.name)
		word = lastWord(name[:strings.LastIndex(name, word)])
	}
	return slices.Contains(nameWords(), word)
}

// numberWords end the names of columns that number things, as driver_no numbers drivers.
func numberWords() []string { return []string{"key", "nbr", "no", "nr", "number"} }

// lastWord is the last word of a name in lower case: id of storeId, code of zip_code.
func lastWord(name string) string {
	name = strings.TrimRightFunc(name, func(r rune) bool { return !unicode.IsLetter(r) })
	at := strings.LastIndexFunc(name, func(r rune) bool { return !unicode.IsLetter(r) }) + 1
	if strings.ToUpper(name[at:]) != name[at:] { // Also bookID.
		capitals := strings.TrimRightFunc(strings.TrimRightFunc(name, unicode.IsLower), unicode.IsUpper)
		at = max(at, len(capitals))
	}
	return strings.ToLower(name[at:])
}

// idsOfRows are what a last word such as orderid names, as rows do.
func idsOfRows() []string {
	return []string{
		"", "app", "application", "booking", "case", "claim", "event", "gu", "invoice", "listing", "loan", "message", "observation", "order", "passenger",
		"payment", "post", "property", "record", "request", "ride", "row", "sale", "sample", "session", "ticket", "transaction", "trip", "u", "uu",
	}
}

// namesRow reports whether integers are ids of rows: most of them do not repeat, labels do not follow them, and the last word of
// the column's name is one of ids, and not paid, or they have one length of ten digits and more, and are no times.
func (c *column) namesRow(values int) bool {
	word := lastWord(c.name)
	named, isID := strings.CutSuffix(word, "id")
	isID = isID && (slices.Contains(idsOfRows(), named) || slices.Contains(nameWords(), named)) || slices.Contains(nameWords(), word) ||
		slices.Contains(numberWords(), word)
	return c.integers == values && (isID || c.isLong(values)) && c.hardlyRepeats() && 4*c.different() > 3*values && !c.labelsFollow()
}

// isLong reports whether integers have one length of ten digits and more, and are no times.
func (c *column) isLong(values int) bool {
	best := c.bestTime()
	return c.width >= 10 && (best == nil || best.form != epoch || !areFew(best.odd.count, values))
}

// isClock reports whether a code is a time of the day, such as 0738, in a column whose name says so.
func (c *column) isClock(cell string) bool {
	const form = "1504"
	_, err := time.Parse(form, cell[:min(len(cell), len(form))])
	return err == nil && strings.Contains(strings.ToLower(c.name), "time")
}

// categories says why integers are categories, and is empty if they are numbers. At least half of
// the cells repeat an integer that is a category, or a quarter if labels depend on it.
func (c *column) categories() string {
	values, n := c.cells-c.gaps, c.different()
	if c.target || c.isBoolean(values) || c.integers < c.numbers || !areFew(values-c.numbers, values) || c.codes.count+c.huge.count > 0 || c.low == c.high || 4*n > 3*values {
		return ""
	}
	e := c.evidence()
	unit, _, _ := c.written.Units()
	switch {
	case 2*n > values && !e.depend:
		return ""
	case (c.namesThings() || c.isLong(values)) && !(e.compared && e.ratio < ordered):
		return " that name things, by the name of the column or by their length"
	case unit != "":
		return ""
	case e.compared && (e.ratio >= orderless && 4*n <= values || e.ratio >= shuffled && 2*n <= values):
		return " that name things: labels of neighboring integers are no more alike than others"
	case e.depend && e.line < straight && n <= fewIntegers && cellsEach*n <= values:
		return ", each a category: the labels follow no line"
	default:
		return ""
	}
}

// declareNames declares a category: with few categories each has a feature, and of many each is a
// key.
func declareNames(n int) *hindsightv1.Input {
	if n <= ownFeatures {
		c := &hindsightv1.CategoricalInput{Encoding: &hindsightv1.CategoricalInput_MaxCategories{MaxCategories: int32(n)}}
		return &hindsightv1.Input{Kind: &hindsightv1.Input_Categorical{Categorical: c}}
	}
	return &hindsightv1.Input{Kind: &hindsightv1.Input_Categorical{Categorical: &hindsightv1.CategoricalInput{Key: true}}}
}

func reasonOfNames(n int) string {
	if n <= ownFeatures {
		return ""
	}
	return fmt.Sprintf("; more than %d, so that each is a key, whose effect auto learns", ownFeatures)
}

const learnerOfKeys = "auto"

// For is an inferred spec for a learner. Learners but auto have no keys: of an input that has its
// key alone the first categories have a feature each, and the others share one. For may return the
// spec itself.
func For(spec *hindsightv1.ModelSpec, learner string) *hindsightv1.ModelSpec {
	out := spec
	if learner == learnerOfKeys {
		return out
	}
	for i, in := range spec.GetInputs() {
		if c := in.GetCategorical(); !c.GetKey() || c.GetEncoding() != nil {
			continue
		}
		if out == spec {
			out = proto.CloneOf(spec)
		}
		out.GetInputs()[i].Kind = &hindsightv1.Input_Categorical{Categorical: &hindsightv1.CategoricalInput{
			Encoding: &hindsightv1.CategoricalInput_MaxCategories{MaxCategories: ownFeatures},
		}}
	}
	return out
}
