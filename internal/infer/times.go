package infer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// Form is the order of the parts of a date in a column of times.
type Form string

// Forms of dates. Months of the last three are named.
const (
	yearMonthDay  Form = "year-month-day"
	eightDigits   Form = "yearmonthday"
	monthDayYear  Form = "month/day/year"
	dayMonthYear  Form = "day/month/year"
	dayNamedYear  Form = "day month-name year"
	namedDayYear  Form = "month-name day year"
	namedDayClock Form = "month-name day time year"
	epoch         Form = "seconds to nanoseconds since 1970"
	serial        Form = "days since 1899-12-30, as spreadsheets count"
	monthFirst    Form = "several forms, the month before the day"
	dayFirst      Form = "several forms, the day before the month"
)

// forms are the known forms. Of two forms that fit as many cells the first is taken, unless the
// rows ascend in time by the second alone.
func forms() []Form {
	return []Form{yearMonthDay, eightDigits, monthDayYear, dayMonthYear, dayNamedYear, namedDayYear, namedDayClock, epoch, serial, monthFirst, dayFirst}
}

// isSeveral reports whether a form stands for cells of several forms in one column.
func (f Form) isSeveral() bool { return f == monthFirst || f == dayFirst }

// looksDated reports whether numbers without punctuation are dates: several of them, and no other form of number. The name
// of the column says whether numbers are seconds since 1970.
func (c *column) looksDated(f Form, values int) bool {
	name := strings.ToLower(c.name)
	named := func(word string) bool { return strings.Contains(name, word) }
	switch f {
	case serial:
		return c.different() > 1 && (strings.HasPrefix(name, "date") || strings.HasSuffix(name, "date"))
	case epoch:
		return c.different() > 1 && (strings.HasSuffix(name, "ts") || slices.ContainsFunc([]string{"time", "date", "epoch", "unix", "ts_", "_at", "created", "modified"}, named))
	default:
		return c.numbers < values || c.different() > 1 && c.integers == c.numbers
	}
}

// rfc3339 is what records have.
const rfc3339 = "2006-01-02T15:04:05.999999999Z07:00"

// maxTime bounds the length of a time that is written, minTime is the length of 45292.
const maxTime, minTime = 72, 5

// Parse reads a time of the form, of the years 1 to 9999. One without a zone is taken as UTC. A
// weekday may be before the date. A time of the day and a zone may follow:
//
//	18:00  18:00:00.25  6:00 PM  24:00  23:59:60  180000
//	Z  UTC  GMT+2  +02  +0200  +02:00  +02:00[Europe/Oslo]  GMT+0200 (CEST)
func (f Form) Parse(cell string) (time.Time, bool) {
	if len(cell) > maxTime || len(cell) < minTime {
		return time.Time{}, false
	}
	if first, last, ok := strings.Cut(cell, " - "); ok { // The first time of an interval.
		from, ok := f.Parse(first)
		to, known := f.Parse(last)
		return from, ok && known && !to.Before(from)
	}
	switch f {
	case epoch:
		return sinceEpoch(cell)
	case serial:
		return ofSpreadsheet(cell)
	case monthFirst, dayFirst:
		parts := monthDayYear
		if f == dayFirst {
			parts = dayMonthYear
		}
		for _, one := range [...]Form{yearMonthDay, dayNamedYear, namedDayYear, namedDayClock, parts} {
			if t, ok := one.Parse(cell); ok {
				return t, true
			}
		}
		return time.Time{}, false
	default:
	}
	if at := strings.LastIndex(cell, " ("); at > 0 && strings.HasSuffix(cell, ")") { // +0200 (CEST), and other remarks.
		cell = cell[:at]
	}
	if strings.HasPrefix(cell, "[") { // As Apache writes.
		cell = strings.TrimSuffix(cell[1:], "]")
	}
	s := scanner{text: cell, ok: true}
	s.weekday()
	year, month, day := s.date(f)
	if !s.ok {
		return time.Time{}, false
	}
	clock, offset := s.clock(f)
	if f == namedDayClock {
		year = s.year()
	}
	if !s.ok || s.text != "" || !exists(year, month, day) {
		return time.Time{}, false
	}
	zone := time.UTC
	if offset != 0 {
		zone = time.FixedZone("", offset)
	}
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, zone).Add(clock)
	if t.Year() > 9999 || t.UTC().Year() < 1 || t.UTC().Year() > 9999 {
		return time.Time{}, false
	}
	// Other years of digits alone are rather numbers.
	return t, f != eightDigits || year >= 1900 && year <= 2100
}

// sinceEpoch reads the seconds since 1970, the milliseconds of 12 or 13 digits, the microseconds of 16 and the nanoseconds of 19.
func sinceEpoch(cell string) (time.Time, bool) {
	s := scanner{text: cell, ok: true}
	n := int64(s.number(9, 19))
	digits := len(cell) - len(s.text)
	t := time.Unix(n, int64(s.fraction())).UTC()
	switch digits {
	case 9, 10:
	case 12, 13:
		t = time.UnixMilli(n).UTC()
	case 16:
		t = time.UnixMicro(n).UTC()
	case 19:
		t = time.Unix(0, n).UTC()
	default:
		return t, false
	}
	return t, s.ok && s.text == "" && t.Year() <= 2100
}

// ofSpreadsheet reads the days since 1899-12-30, with a fraction or not, of the years 1954 to 2118.
func ofSpreadsheet(cell string) (time.Time, bool) {
	s := scanner{text: cell, ok: true}
	days := s.number(5, 5)
	after := time.Duration(s.fraction()) * 24
	t := time.Date(1899, 12, 30+days, 0, 0, 0, 0, time.UTC).Add(after).Round(time.Millisecond)
	return t, s.ok && s.text == "" && days >= 20_000 && days < 80_000
}

func isRecordTime(cell string) bool {
	_, err := time.Parse(time.RFC3339, cell)
	return err == nil
}

// isOpen reports whether a time is one that programs write for none: the first of .NET, or the end that
// never comes.
func isOpen(t time.Time) bool { return t.Year() == 9999 || t.Year() == 1 && t.YearDay() == 1 }

// isSeason reports whether a month could be a season of two years: 2001-02 may be 2001 to 2002.
func isSeason(cell string, t time.Time) bool {
	return len(cell) == len("2001-02") && int(t.Month()) == (t.Year()+1)%100
}

func exists(year, month, day int) bool {
	return year > 0 && month >= 1 && month <= 12 && day >= 1 && day <= time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// scanner takes parts from the front of a text. It is not ok after a part that it did not find.
type scanner struct {
	text string
	ok   bool
}

func (s *scanner) number(minDigits, maxDigits int) int {
	n := 0
	for n < len(s.text) && n < maxDigits && s.text[n] >= '0' && s.text[n] <= '9' {
		n++
	}
	if n < minDigits {
		s.ok = false
		return 0
	}
	v, _ := strconv.Atoi(s.text[:n]) // The largest integer, if 19 digits are more.
	s.text = s.text[n:]
	return v
}

func (s *scanner) startsWithDigit() bool {
	return s.text != "" && s.text[0] >= '0' && s.text[0] <= '9'
}

// take removes the next byte if it is one of a set, and returns it; else it returns 0.
func (s *scanner) take(set string) byte {
	if s.text == "" || !strings.Contains(set, s.text[:1]) {
		return 0
	}
	c := s.text[0]
	s.text = s.text[1:]
	return c
}

func (s *scanner) need(set string) byte {
	c := s.take(set)
	s.ok = s.ok && c != 0
	return c
}

// spaces takes the spaces that are next, and reports whether there are some.
func (s *scanner) spaces() bool {
	rest := strings.TrimLeft(s.text, " \u00a0\u202f")
	some := len(rest) < len(s.text)
	s.text = rest
	return some
}

func (s *scanner) word() string {
	if n := strings.IndexFunc(s.text, func(r rune) bool { return !unicode.IsLetter(r) }); n >= 0 {
		return s.text[:n]
	}
	return s.text
}

// named finds a word among names, of which the first three letters may stand alone, and returns its
// place from 1; 0 for another word.
func named(word string, names ...string) int {
	for i, name := range names {
		if strings.EqualFold(word, name) || strings.EqualFold(word, name[:3]) {
			return i + 1
		}
	}
	return 0
}

func (s *scanner) weekday() {
	word := s.word()
	if named(word, "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday") == 0 {
		return
	}
	s.text = s.text[len(word):]
	s.take(",.")
	s.ok = s.ok && s.spaces()
}

func (s *scanner) month() int {
	word := s.word()
	s.text = s.text[len(word):]
	word = strings.ToLower(word)
	const longest = len("septiembre")
	for m, beginnings := range [...]string{"jan ene gen", "feb fév fev", "mar mär mrz", "apr avr abr", "may mai mei mag", "jun juin giu", "jul juil lug", "aug aoû aou ago", "sep set", "oct okt ott out", "nov", "dec dez dic déc"} {
		for beginning := range strings.FieldsSeq(beginnings) {
			if len(word) <= longest && strings.HasPrefix(word, beginning) {
				return m + 1
			}
		}
	}
	s.ok = false
	return 0
}

// dayOfMonth takes a day, of 1st and 1er too.
func (s *scanner) dayOfMonth() int {
	day := s.number(1, 2)
	if word := strings.ToLower(s.word()); word == "st" || word == "nd" || word == "rd" || word == "th" || word == "er" {
		s.text = s.text[len(word):]
	}
	return day
}

// year takes a year of four digits, or of two: 69 is 1969, and 68 is 2068.
func (s *scanner) year() int {
	before := len(s.text)
	year := s.number(2, 4)
	switch before - len(s.text) {
	case 4:
		return year
	case 2:
		if year >= 69 {
			return 1900 + year
		}
		return 2000 + year
	}
	s.ok = false
	return 0
}

// between takes the separator of the parts of a date whose month is named, and reports whether the text has one.
func (s *scanner) between() bool {
	before := len(s.text)
	s.take(".,")
	if !s.spaces() {
		s.take("-/")
	}
	s.text = strings.TrimPrefix(s.text, "de ")
	return len(s.text) < before
}

// date takes the date. Of namedDayClock it has no year.
func (s *scanner) date(f Form) (year, month, day int) {
	switch f {
	case yearMonthDay:
		year = s.number(4, 4)
		if unit := s.partOfYear(); unit != "" {
			return s.ofPart(unit, year)
		}
		separator := s.need("-/.")
		month = s.number(1, 2)
		if day = 1; s.text != "" || separator != '-' { // 2024-05 is its first day.
			s.need(string(separator))
			day = s.number(1, 2)
		}
	case eightDigits:
		year, month, day = s.number(4, 4), s.number(2, 2), s.number(2, 2)
	case monthDayYear, dayMonthYear:
		first, separators := s.number(1, 2), "/-"
		if f == dayMonthYear {
			separators = "/-."
		}
		separator := s.need(separators)
		if f == monthDayYear && len(s.text) == len("2024") && strings.Trim(s.text, "0123456789") == "" { // 03/2024 is its first day.
			year = s.number(4, 4)
			s.ok = s.ok && year >= 1900 && year <= 2100
			return year, first, 1
		}
		second := s.number(1, 2)
		s.need(string(separator))
		before := len(s.text)
		year = s.year()
		s.ok = s.ok && (separator != '-' || before-len(s.text) == 4)
		if month, day = first, second; f == dayMonthYear {
			month, day = second, first
		}
	case dayNamedYear:
		day = s.dayOfMonth()
		s.between()
		month = s.month()
		s.between()
		year = s.year()
	case namedDayYear, namedDayClock:
		month = s.month()
		hyphen := strings.HasPrefix(s.text, "-")
		s.between()
		alone := *s
		if year = alone.year(); f == namedDayYear && alone.ok && alone.text == "" && (hyphen || len(s.text) > 2) { // Feb 2024 and Feb-24 are its first day.
			*s = alone
			return year, month, 1
		}
		day = s.dayOfMonth()
		if s.ok = s.between() && s.ok; f == namedDayYear {
			year = s.year()
		}
	default:
	}
	return year, month, day
}

// partOfYear takes what marks a quarter, a week or a month of a year: 2024-Q1, 2024W05 and 2024年3月1日.
func (s *scanner) partOfYear() string {
	for _, unit := range [...]string{"Q", "W", "年"} {
		if rest, ok := strings.CutPrefix(strings.TrimLeft(s.text, "- "), unit); ok {
			s.text = rest
			return unit
		}
	}
	return ""
}

// ofPart takes the number of a quarter or of a week of ISO 8601, and returns its first day, or takes the month and the day
// of a date of Chinese or Japanese.
func (s *scanner) ofPart(unit string, year int) (_, month, day int) {
	first := time.Date(year, 1, 4, 0, 0, 0, 0, time.UTC) // The fourth of January is in the first week.
	switch unit {
	case "Q":
		quarter := s.number(1, 1)
		s.ok = s.ok && quarter <= 4
		return year, 3*quarter - 2, 1
	case "W":
		week := s.number(2, 2)
		s.ok = s.ok && week >= 1 && week <= 53
		first = first.AddDate(0, 0, 7*(week-1)-(int(first.Weekday())+6)%7)
		return first.Year(), int(first.Month()), first.Day()
	}
	month = s.number(1, 2)
	rest, ok := strings.CutPrefix(s.text, "月")
	s.text = rest
	day = s.number(1, 2)
	rest, known := strings.CutPrefix(s.text, "日")
	s.text, s.ok = rest, s.ok && ok && known
	return year, month, day
}

// clock takes the time of the day and the zone, as what follows midnight, and seconds east of UTC.
func (s *scanner) clock(f Form) (after time.Duration, offset int) {
	if f != namedDayClock {
		if s.text == "" {
			return 0, 0
		}
		digits := f == eightDigits && s.startsWithDigit() // 20260102150405
		switch s.take("Tt_") {
		case 0:
			s.take(",")
			s.ok = s.ok && (s.spaces() || digits || f == dayNamedYear && s.take(":") != 0) // 10/Oct/2000:13:55:36
		default:
		}
	}
	if f == eightDigits && len(s.text) == len("15") { // 2026010215
		s.text += "00"
	}
	after = s.timeOfDay()
	spaced := s.spaces()
	if f == namedDayClock && s.startsWithDigit() {
		s.ok = s.ok && spaced
		return after, 0
	}
	offset = s.zone()
	if f == namedDayClock {
		s.ok = s.ok && s.spaces()
	}
	return after, offset
}

func (s *scanner) timeOfDay() time.Duration {
	var minute, second, nanos int
	hour := s.number(1, 2)
	hours := true // Nothing but the hour.
	switch separator := s.take(":."); {
	case separator != 0:
		hours = false
		if minute = s.number(2, 2); s.take(string(separator)) != 0 {
			second, nanos = s.number(2, 2), s.fraction()
		}
	case s.startsWithDigit(): // 150405
		hours = false
		if minute = s.number(2, 2); s.startsWithDigit() {
			second, nanos = s.number(2, 2), s.fraction()
		}
	}
	rest := *s
	rest.spaces()
	switch half := strings.ToLower(strings.ReplaceAll(rest.text[:min(4, len(rest.text))], ".", "")); {
	case strings.HasPrefix(half, "am"), strings.HasPrefix(half, "pm"):
		rest.text = rest.text[1:]
		rest.take(".")
		rest.need("mM")
		rest.take(".")
		s.text, s.ok, hours = rest.text, s.ok && rest.ok && hour >= 1 && hour <= 12, false
		hour %= 12
		if half[0] == 'p' {
			hour += 12
		}
	}
	end := hour == 24 && minute == 0 && second == 0 && nanos == 0
	s.ok = s.ok && !hours && (hour < 24 || end) && minute < 60 && second <= 60
	return time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(second)*time.Second + time.Duration(nanos)
}

func (s *scanner) fraction() int {
	if len(s.text) < 2 || s.text[1] < '0' || s.text[1] > '9' || s.take(".,") == 0 {
		return 0
	}
	before := s.text
	nanos := s.number(1, 9)
	for range 9 - (len(before) - len(s.text)) {
		nanos *= 10
	}
	for s.startsWithDigit() {
		s.text = s.text[1:]
	}
	return nanos
}

// offsetOf is the offset of the name of a zone in hours, of RFC 822 and of Europe.
func offsetOf(name string) (hours int, ok bool) {
	const west = 8
	for n, names := range [...]string{"PST", "MST PDT", "CST MDT", "EST CDT", "EDT", "", "", "", "WET", "BST WEST CET MEZ", "CEST MESZ EET", "EEST MSK"} {
		if slices.Contains(strings.Fields(names), name) {
			return n - west, true
		}
	}
	return 0, false
}

// zone takes the zone, if one follows, as seconds east of UTC. Other names of zones without their offset are not taken.
func (s *scanner) zone() (offset int) {
	word := s.word()
	switch strings.ToUpper(word) {
	case "Z":
		s.text = s.text[1:]
		return 0
	case "UTC", "GMT":
		s.text = s.text[len(word):]
	case "":
	default:
		hours, known := offsetOf(word)
		s.text, s.ok = s.text[len(word):], s.ok && known
		return hours * 3600
	}
	sign := s.take("+-")
	if sign == 0 {
		return 0
	}
	hours, minutes := s.number(1, 2), 0
	if s.take(":") != 0 || s.startsWithDigit() {
		minutes = s.number(2, 2)
	}
	s.ok = s.ok && hours < 24 && minutes < 60
	// What follows an offset names it again: +02:00[Europe/Oslo].
	if rest := strings.TrimLeft(s.text, " "); rest != "" && rest[0] == '[' && strings.HasSuffix(rest, "]") {
		s.text = ""
	}
	if offset = hours*3600 + minutes*60; sign == '-' {
		offset = -offset
	}
	return offset
}

// bestTime takes the first of the forms that fit most cells, unless the rows ascend by another of them
// alone. It is nil if no form fits.
func (c *column) bestTime() (best *span) {
	for i := range c.times {
		s := &c.times[i]
		more := 0
		if best != nil {
			more = s.fits + s.open - best.fits - best.open
		}
		if s.fits > 0 && s.dated && (best == nil || more > 0 || more == 0 && best.descends > 0 && s.descends == 0) {
			best = s
		}
	}
	return best
}

func (c *column) timeOf(f Form) *span {
	return &c.times[slices.IndexFunc(c.times, func(s span) bool { return s.form == f })]
}

func (c *column) decideTime(out *Column, best *span) {
	out.Kind, out.gaps, out.Form = Moment, true, best.form
	in := &hindsightv1.TimeInput{}
	var names []string
	cycle := func(long bool, c hindsightv1.TimeInput_Cycle, name string) {
		if long {
			in.Cycles, names = append(in.Cycles, c), append(names, name)
		}
	}
	length := best.last.Sub(best.first)
	out.Reason = fmt.Sprintf("times as %s from %s to %s", best.form, best.first.Format(time.DateOnly), best.last.Format(time.DateOnly))
	if c.swappable(best) {
		out.Reason += ", where day and month could also be swapped"
	}
	cycle(best.ofDay, hindsightv1.TimeInput_CYCLE_HOUR_OF_DAY, "hour_of_day")
	cycle(length >= 14*day && best.daily && best.weekdays, hindsightv1.TimeInput_CYCLE_DAY_OF_WEEK, "day_of_week")
	cycle(length >= 365*day, hindsightv1.TimeInput_CYCLE_DAY_OF_YEAR, "day_of_year")
	// Cycles repeat; a trend distinguishes the repetitions.
	trend := length >= 365*day || len(in.GetCycles()) == 0
	out.Reason += fmt.Sprintf(", %d days: %s", int(length/day), strings.Join(names, ", "))
	if trend {
		in.Trend = &trend
		out.Reason = strings.TrimSuffix(out.Reason, " ") + " and a trend"
	}
	out.Input = &hindsightv1.Input{Kind: &hindsightv1.Input_Time{Time: in}}
}

// swappable reports whether an equally good form reads other times from the cells.
func (c *column) swappable(best *span) bool {
	return slices.ContainsFunc(c.times, func(s span) bool {
		return s.fits == best.fits && (s.descends == 0) == (best.descends == 0) && (!s.first.Equal(best.first) || !s.last.Equal(best.last))
	})
}
