package dataset

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	currencies = "$€£¥₹"
	// Bounds of the bytes of a unit, and of a flag of a number.
	maxUnit, maxFlag = 16, 2
	// How many units of a column are counted.
	maxUnits    = 64
	maxCurrency = 5 // HK$
	amount      = `([0-9]+(?:[.,][0-9]+)?)`
)

// written is a number as a person writes it, in parts.
type written struct {
	minus, digits string
	// unit is a sign or a code of a currency before the number, or letters and signs after the number.
	unit string
	// magnitude is e3 of 1.5k. letter is k, M or B where nothing else follows the digits, and may be a unit.
	magnitude, letter string
	// bound is set of <0.05, >=200 and 5+, inner of (5).
	bound, inner bool
}

// magnitude is the exponent of a word for a thousand and more, or empty. A single letter has no space before, but of
// amounts of a currency, and in columns that have letters of other magnitudes or without a space.
func magnitude(word string, spaced bool) string {
	if spaced && len(word) == 1 {
		return ""
	}
	switch word {
	case "k", "K", "thousand":
		return "e3"
	case "lakh", "Lakh", "Lac":
		return "e5"
	case "M", "mn", "Mio", "million":
		return "e6"
	case "crore", "Crore", "Cr":
		return "e7"
	case "B", "bn", "Mrd", "billion":
		return "e9"
	default:
		return ""
	}
}

// split cuts a number into its parts. (5) and 5- are -5. Marks of footnotes and of significance are cut off.
func split(text string) (w written) {
	if strings.HasSuffix(text, "]") {
		text = footnote.ReplaceAllString(text, "$1")
	}
	text = strings.TrimRight(text, "*†‡")
	if spreads := strings.Contains(text, "±") || strings.Contains(text, "+/-") || strings.HasSuffix(text, ")"); spreads {
		text = spread.ReplaceAllString(text, "$1")
	}
	text, w.bound = unbounded(text)
	if inner, ok := strings.CutSuffix(text, ")"); ok && strings.HasPrefix(inner, "(") {
		w.minus, w.inner, text = "-", true, inner[1:]
	}
	text = w.cutSign(text)
	switch at := strings.IndexAny(text[:min(len(text), maxCurrency)], currencies); {
	case at >= 0 && strings.Trim(text[:at], "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "": // Also R$ and CA$.
		_, size := utf8.DecodeRuneInString(text[at:])
		w.unit, text = text[:at+size], w.cutSign(strings.TrimSpace(text[at+size:]))
	default:
		if code := money.FindString(text); code != "" {
			w.unit, text = strings.TrimSpace(code), w.cutSign(text[len(code):])
		}
	}
	if w.digits = text; text == "" || text[0] != '.' && (text[0] < '0' || text[0] > '9') {
		return w
	}
	end := unitAt(text)
	spaced := end == len(text) || text[end-1] == ' '
	w.digits = strings.TrimSpace(text[:end])
	if at := strings.LastIndexAny(w.digits, ".,"); at > 0 && at < len(w.digits)-1 && strings.Trim(w.digits[at+1:], "-–—") == "" {
		w.digits = w.digits[:at+1] + "00" // 331.500,-
	}
	if end < len(text) {
		w.cutUnit(text[end:], spaced)
	}
	if before, ok := strings.CutSuffix(w.digits, "-"); ok && spaced && w.minus == "" && !strings.HasSuffix(before, " ") {
		w.minus, w.digits = "-", before
	}
	return w
}

// cutSign cuts off a sign before a number.
func (w *written) cutSign(text string) string {
	for _, s := range [...][2]string{{"\u2212", "-"}, {"–", "-"}, {"▼", "-"}, {"▲", "+"}} {
		if after, ok := strings.CutPrefix(text, s[0]); ok {
			text = s[1] + strings.TrimLeft(after, " ")
		}
	}
	if w.minus == "" && text != "" && (text[0] == '-' || text[0] == '+') {
		w.minus, text = text[:1], text[1:]
	}
	return text
}

// cutUnit adds the unit behind the digits, in which a word for a thousand and more is the magnitude, and Dr of accounts a minus.
func (w *written) cutUnit(unit string, spaced bool) {
	word := strings.TrimRight(unit, currencies+" ")
	rest := strings.TrimLeft(unit[len(word):], " ")
	switch {
	case w.unit == "" && strings.EqualFold(word, "dr"):
		w.minus = "-"
		return
	case w.unit == "" && (word == "Cr" || word == "CR"):
		return
	case len(unit) > maxFlag && strings.ToLower(unit) == unit: // 12-month
		w.digits = strings.TrimSuffix(w.digits, "-")
	}
	if w.unit == "" && len(unit) == 1 && magnitude(unit, false) != "" {
		w.letter = unit
	}
	if w.magnitude = magnitude(word, spaced && w.unit == "" && rest == ""); w.magnitude != "" {
		unit = rest
	}
	w.unit += singular(ordinal.ReplaceAllString(unit, ""))
}

// unbounded cuts off the words and signs of about, of a bound, and of where and when, and reports whether text is a bound.
func unbounded(text string) (exact string, bound bool) {
	if strings.Contains(text, " ") && text[len(text)-1] >= 'a' {
		text = remark.ReplaceAllString(text, "")
	}
	exact = text
	if strings.ContainsAny(text, "0123456789") && text[0] >= 'A' {
		text = around.ReplaceAllString(text, "$1")
		exact = beyond.ReplaceAllString(text, "")
	}
	exact = strings.TrimLeft(strings.TrimSuffix(exact, "+"), "<>=≤≥ ")
	if digits, unit, ok := strings.Cut(exact, "+ "); ok && strings.Trim(digits, "0123456789") == "" && unitAt("0"+unit) == 1 { // 10+ years
		exact = digits + " " + unit
	}
	return exact, exact != text
}

// unitAt returns where the unit of a text that begins with a digit begins, or the length of a text without one.
func unitAt(text string) int {
	at := strings.IndexFunc(text, func(r rune) bool {
		return unicode.IsLetter(r) || strings.ContainsRune(currencies+"%‰°℃℉/★", r)
	})
	if at <= 0 {
		return len(text)
	}
	if exponent := strings.TrimLeft(text[at+1:], "+-"); text[at]|0x20 == 'e' && exponent != "" && exponent[0] >= '0' && exponent[0] <= '9' {
		from := len(text) - len(strings.TrimLeft(exponent, "0123456789"))
		return from + unitAt("0"+text[from:]) - 1
	}
	unit := strings.Replace(text[at:], "/100 ", "/", 1)
	if len(unit) > maxUnit || strings.Contains(unit, "%%") || strings.ContainsAny(strings.TrimRight(unit, "23"), "0123456789:-+") {
		return len(text)
	}
	return at
}

// isCurrency reports whether a unit is the sign or the code of a currency.
func isCurrency(unit string) bool {
	codes := []string{"AUD", "BRL", "CAD", "CHF", "CNY", "CZK", "DKK", "EUR", "GBP", "HKD", "INR", "JPY", "KRW", "MXN", "NOK", "NZD", "PLN", "SEK", "SGD", "TRY", "USD", "ZAR"}
	return strings.ContainsAny(unit, currencies) || slices.Contains(codes, unit)
}

// singular cuts the s of a plural, as of yrs and Months. It does not cut the s of ms. Of two spellings of a unit, such as KG and kg,
// it returns one.
func singular(unit string) string {
	if after, ok := strings.CutPrefix(unit, "μ"); ok { // Of Greek, in place of the sign of micro.
		unit = "µ" + after
	}
	switch unit {
	case "℃", "ºC":
		return "°C"
	case "℉", "ºF":
		return "°F"
	case "pct", "percent":
		return "%"
	}
	if lower := strings.ToLower(unit); lower != unit && len(unit) > 1 {
		_, known := sizeOf(unit)
		if _, base := sizeOf(strings.TrimSuffix(lower, "s")); known == "" && base != "" {
			unit = lower
		}
	}
	if utf8.RuneCountInString(unit) > 2 {
		return strings.TrimSuffix(unit, "s")
	}
	return unit
}

// sizeOf is how much of the base unit a unit is, with the base unit, which is empty for other units. A lone m is a minute.
func sizeOf(unit string) (size float64, base string) {
	if size, base := others(unit); base != "" {
		return size, base
	}
	for _, prefix := range [...]struct {
		text string
		size float64
	}{{"", 1}, {"µ", 1e-6}, {"μ", 1e-6}, {"m", 1e-3}, {"c", 1e-2}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}} {
		switch base, ok := strings.CutPrefix(unit, prefix.text); base {
		case "g", "m", "l", "L", "B", "W", "Wh", "V", "A", "Hz", "Pa", "J":
			if ok {
				return prefix.size, strings.Replace(base, "L", "l", 1)
			}
		}
	}
	return 0, ""
}

// convert converts v of a unit into another unit. A lone m is a metre beside another unit of length. It fails if the units measure
// different things, or one is not known.
func convert(v float64, unit, into string) (converted float64, ok bool) {
	size, base := sizeOf(unit)
	per, of := sizeOf(into)
	switch {
	case unit == into:
		return v, true
	case into == "m" && base == "m":
		per, of = 1, base
	case unit == "m" && of == "m":
		size, base = 1, of
	case base == "month" && of == "s":
		size, base = size*perMonth, of
	case base == "s" && of == "month":
		per, of = per*perMonth, base
	}
	return v * size / per, base != "" && base == of
}

// perMonth is how many seconds a mean month of the Gregorian calendar has.
const perMonth = 2_629_746

// others is sizeOf of units that have no prefix of the SI.
func others(unit string) (size float64, base string) {
	for _, row := range [...]struct {
		base  string
		size  float64
		units string
	}{
		{"s", 1e-6, "us µs"},
		{"s", 0.001, "ms"},
		{"s", 1, "s sec second"},
		{"s", 60, "m min minute"},
		{"s", 3600, "h hr hour"},
		{"s", 86_400, "d day"},
		{"s", 604_800, "w wk week"},
		{"month", 1, "mo month"},
		{"month", 12, "y yr year yo"},
		{"B", 1e3, "KB"},
		{"B", 1 << 10, "KiB Ki"},
		{"B", 1 << 20, "MiB Mi"},
		{"B", 1 << 30, "GiB Gi"},
		{"B", 1 << 40, "TiB Ti"},
		{"in", 1, "in"},
		{"in", 12, "ft"},
		{"in", 63_360, "mi mile"},
		{"g", 1e-6, "mcg"},
		{"g", 28.349523125, "oz ounce"},
		{"g", 453.59237, "lb pound"},
		{"sqft", 1, "sqft"},
		{"sqft", 43_560, "acre"},
	} {
		if slices.Contains(strings.Fields(row.units), unit) {
			return row.size, row.base
		}
	}
	return 0, ""
}

var (
	part    = regexp.MustCompile(`^` + amount + ` ?([a-z]+)\.?,? ?(?:and )?`)
	remark  = regexp.MustCompile(` (?:ago|away|each|from [a-z ]+|left|lot)$`)
	height  = regexp.MustCompile(`^([0-9]+)['′’] ?(?:([0-9]+(?:\.[0-9]+)?)(?:"|″|'')([0-9]*)|([0-9]{1,2}(?:\.[0-9]+)?))$`)
	degrees = regexp.MustCompile(`^([NSEW]?) ?(-?[0-9]+(?:[.,][0-9]+)?) ?°(?: ?([0-9]+(?:[.,][0-9]+)?) ?['′’])?(?: ?([0-9]+(?:[.,][0-9]+)?) ?(?:"|″|''))? ?([NSEW]?)$`)
	around  = regexp.MustCompile(`^(?:(?i:ca\.|approx\.|est\.|about|around|aged?|built(?: in)?|makes|rated|serves|since) |[~≈±] ?)(.+)$`)
	beyond  = regexp.MustCompile(`^(?i:over|more than|at least|up to|under|less than|from) `)
	// 2h05 is 2h05m.
	hourMinutes = regexp.MustCompile(`^[0-9]+ ?h ?[0-9][0-9]$`)
	money       = regexp.MustCompile(`^(?:[A-Z]{3} |(?:kr|Rs|Fr)\.? ?)`)
	footnote    = regexp.MustCompile(`^(.*[^ ]) ?\[[0-9a-z]{1,3}\]$`)
	ordinal     = regexp.MustCompile(`^(?:st|nd|rd|th)\b ?`)
	iso         = regexp.MustCompile(`^P(?:` + amount + `W)?(?:` + amount + `D)?(?:T(?:` + amount + `H)?(?:` + amount + `M)?(?:` + amount + `S)?)?$`)
	clock       = regexp.MustCompile(`^(?:(\d{1,9}) days?,? ?)?(\d{1,9}):(\d\d)(?::(\d\d))?(\.\d+)?$`)
	fraction    = regexp.MustCompile(`^(?:([0-9]+) )?([0-9]+(?:[.,][0-9]+)?)(?: ?/ ?| out of )([0-9]+)(?: ([a-z]+))?$`)
	spread      = regexp.MustCompile(`^(.*[^ (]) ?(?:\(?(?:±|\+/-).*| \((?:[-+<0-9][^()]*|[HL]{1,2})\))$`)
)

// compound reads a number of several parts: a duration or length as together reads it, an angle such as 52°31'N in
// degrees, feet and inches such as 5'11" in inches, or in seconds if the column has laps such as 5'12", stars such as ★★☆, or a
// fraction of at most 1, with a whole number before or not.
func compound(text string, laps bool) (v float64, unit string, ok bool) {
	if len(text) > maxNumber {
		return 0, "", false
	}
	if strings.Contains(text, "°") {
		if m := degrees.FindStringSubmatch(text); m != nil {
			for i, size := range []float64{1, 60, 3600} {
				v += decimal(strings.TrimPrefix(m[2+i], "-")) / size
			}
			if strings.HasPrefix(m[2], "-") != strings.ContainsAny(m[1]+m[5], "SW") {
				v = -v
			}
			return v, "°", true
		}
	}
	if strings.ContainsAny(text, "'′’★⭐☆") {
		if v, unit, ok = marked(text, laps); ok {
			return v, unit, ok
		}
	}
	if strings.Count(text, "/") == 1 || strings.Contains(text, " out of ") {
		if m := fraction.FindStringSubmatch(text); m != nil {
			over, under := decimal(m[2]), decimal(m[3])
			measures := []float64{2, 3, 4, 5, 6, 8, 12, 16, 32, 64}
			return decimal(m[1]) + over/under, strings.TrimSuffix(singular(m[4]), "star"), over <= under && (slices.Contains(measures, under) || under > 0 && math.Mod(under, 10) == 0) // Also the best of ratings.
		}
	}
	if text == "" || text[0] < '0' || text[0] > '9' || !strings.ContainsAny(text, "bdfghmrswy") {
		return 0, "", false
	}
	return together(text)
}

// marked reads feet and inches, laps or stars.
func marked(text string, laps bool) (v float64, unit string, ok bool) {
	const foot, minute = 12, 60
	if m := height.FindStringSubmatch(text); m != nil {
		if laps || decimal(m[2]+m[4]) >= foot || m[3] != "" {
			return minute*decimal(m[1]) + decimal(m[2]+"."+m[3]) + decimal(m[4]), "s", true
		}
		return foot*decimal(m[1]) + decimal(m[2]+m[4]), "in", true
	}
	rest := strings.TrimLeft(text, "★⭐")
	stars := utf8.RuneCountInString(text) - utf8.RuneCountInString(rest)
	return float64(stars) + float64(strings.Count(rest, "½"))/2, "★", strings.Trim(rest, "½☆✩") == ""
}

// together adds the parts of a duration such as 1h 20m or 3 yrs 2 mos, or of a length such as 5 ft 3 in, in the base unit.
func together(text string) (v float64, unit string, ok bool) {
	if hourMinutes.MatchString(text) {
		text += "m"
	}
	parts, before := 0, math.Inf(1)
	for rest := text; rest != ""; parts++ {
		m := part.FindStringSubmatch(rest)
		if m == nil {
			return 0, "", false
		}
		size, base := sizeOf(singular(m[2]))
		if base == "" || parts > 0 && base != unit || size >= before {
			return 0, "", false
		}
		v, unit, before = v+size*decimal(m[1]), base, size
		rest = rest[len(m[0]):]
	}
	return v, unit, parts > 1
}

// decimal reads digits with a decimal mark or without, and is 0 of an empty text.
func decimal(digits string) float64 {
	v, _ := strconv.ParseFloat(strings.Replace(digits, ",", ".", 1), 64)
	return v
}

// halfOf is the half of the day, am, pm, a or p, of a unit, or empty. Points and spaces do not count.
func halfOf(unit string) string {
	switch half := strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(unit, ".", ""), " ", "")); half {
	case "am", "pm", "a", "p":
		return half
	default:
		return ""
	}
}

// isoSeconds converts a duration of ISO 8601, for example P1DT2H30M, into seconds. Other texts stay as they are, also years
// and months, whose lengths differ.
func isoSeconds(text string) string {
	parts := iso.FindStringSubmatch(text)
	if parts == nil || strings.Trim(text, "PT") == "" {
		return text
	}
	total := 0.0
	for i, size := range []float64{604_800, 86_400, 3600, 60, 1} {
		total += size * decimal(parts[i+1])
	}
	return strconv.FormatFloat(total, 'f', -1, 64)
}

// seconds converts 1:02:03, 2 days 01:02:03 or 2:03 into seconds, the last as if 2 were minutes. With a half of the day, am,
// pm, a or p, or in a column of hours, the first part is hours. Other texts stay as they are.
func seconds(text, half string, hours bool) string {
	parts := clock.FindStringSubmatch(text)
	if parts == nil || parts[1] != "" && parts[4] == "" {
		return text
	}
	number := func(i int) int {
		v, _ := strconv.Atoi(parts[i]) // Digits, or none.
		return v
	}
	first, second, third := number(2), number(3), number(4)
	if half != "" && (first < 1 || first > 12) || second > 59 || third > 59 {
		return text
	}
	switch {
	case half != "":
		if first %= 12; half[0] == 'p' {
			first += 12
		}
	case parts[4] == "" && !hours:
		first, second, third = 0, first, second
	}
	return strconv.Itoa(((number(1)*24+first)*60+second)*60+third) + parts[5]
}
