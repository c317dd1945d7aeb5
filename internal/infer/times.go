package infer

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

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
		return c.different() > 1 && (strings.HasSuffix(name, "ts") || c.width >= len("1704067200525") && strings.HasSuffix(name, "_ms") || slices.ContainsFunc([]string{"time", "date", "epoch", "unix", "ts_", "_at", "created", "modified"}, named))
	default:
		return c.numbers < values || c.different() > 1 && c.integers == c.numbers
	}
}

// rfc3339 is what records have.
const rfc3339 = "2006-01-02T15:04:05.999999999Z07:00"

// maxTime bounds the length of a time that is written, minTime is the length of a year.
const maxTime, minTime = 72, 4

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
	case yearMonthDay:
		if year, err := strconv.Atoi(cell); len(cell) == minTime {
			return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), err == nil && year >= 1900 && year <= 2100
		}
	default:
	}
	if t, ok := f.readLayout(cell); ok {
		return t, true
	}
	return f.read(cell)
}

// readLayout reads a time by the layouts of the form. What they do not read, the pattern may read.
func (f Form) readLayout(cell string) (time.Time, bool) {
	colons := strings.Count(cell, ":")
	for _, layout := range f.layouts() {
		if strings.Count(layout, ":") != colons && layout != time.RFC3339 {
			continue
		}
		t, err := time.Parse(layout, cell)
		if err != nil || t.Hour()%12 == 0 && strings.HasSuffix(layout, "PM") && strings.Contains(cell, " 0") { // 0:30 PM is no time.
			continue
		}
		if t.UTC().Year() > 0 && t.Year() > 0 && t.UTC().Year() <= 9999 {
			return t, true
		}
	}
	return time.Time{}, false
}

// layouts are the most frequent writings of a form, which the pattern reads too, in ten times the time.
func (f Form) layouts() []string {
	switch f {
	case yearMonthDay:
		return []string{time.DateTime, time.DateOnly, "2006-01-02 15:04", time.RFC3339}
	case monthDayYear:
		return []string{"1/2/2006 15:04", "1/2/2006", "1/2/2006 3:04:05 PM", "1/2/2006 15:04:05"}
	case dayMonthYear:
		return []string{"2.1.2006", "2/1/2006", "2/1/2006 15:04", "2.1.2006 15:04"}
	case dayNamedYear:
		return []string{"2-Jan-2006", "2 Jan 2006"}
	case namedDayYear:
		return []string{"Jan 2, 2006", "January 2, 2006"}
	default:
		return nil
	}
}

// read reads a time by the pattern of the form.
func (f Form) read(cell string) (time.Time, bool) {
	if at := strings.LastIndex(cell, " ("); at > 0 && strings.HasSuffix(cell, ")") { // +0200 (CEST), and other remarks.
		cell = cell[:at]
	}
	cell = strings.TrimSuffix(strings.TrimPrefix(cell, "["), "]") // As Apache writes.
	p := f.split(cell)
	if p == nil {
		return time.Time{}, false
	}
	year, month, day := p.date()
	clock, isTime := p.clock(f)
	offset, known := p.offset()
	if !isTime || !known || !exists(year, month, day) {
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

var digitsOnly = regexp.MustCompile(`^(\d+)(?:[.,](\d+))?$`)

// sinceEpoch reads the seconds since 1970, the milliseconds of 12 or 13 digits, the microseconds of 16 and the nanoseconds of 19.
func sinceEpoch(cell string) (t time.Time, ok bool) {
	if strings.ContainsAny(cell, "eE") { // 1.50421E+12
		v, _ := parseNumber(cell)
		cell = strconv.FormatFloat(v, 'f', -1, 64)
	}
	found := digitsOnly.FindStringSubmatch(cell)
	if found == nil {
		return t, false
	}
	n, _ := strconv.ParseInt(found[1], 10, 64) // The largest integer, if 19 digits are more.
	switch len(found[1]) {
	case 9, 10:
		t = time.Unix(n, int64(nanosOf(found[2])))
	case 12, 13:
		t = time.UnixMilli(n)
	case 16:
		t = time.UnixMicro(n)
	case 19:
		t = time.Unix(0, n)
	default:
		return t, false
	}
	return t.UTC(), t.UTC().Year() <= 2100
}

// ofSpreadsheet reads the days since 1899-12-30, with a fraction or not, of the years 1954 to 2118.
func ofSpreadsheet(cell string) (t time.Time, ok bool) {
	found := digitsOnly.FindStringSubmatch(cell)
	if found == nil || len(found[1]) != 5 {
		return t, false
	}
	days, _ := strconv.Atoi(found[1]) // Digits.
	t = time.Date(1899, 12, 30+days, 0, 0, 0, 0, time.UTC).Add(24 * nanosOf(found[2])).Round(time.Millisecond)
	return t, days >= 20_000 && days < 80_000
}

func isRecordTime(cell string) bool {
	_, err := time.Parse(time.RFC3339, cell)
	return err == nil
}

// isOpen reports whether a time is one that programs write for none: the first of .NET, or the end that
// never comes.
func isOpen(t time.Time) bool { return t.Year() == 9999 || t.Year() == 1 && t.YearDay() == 1 }

// isSeason reports whether a month could be a season of two years, as 2001-02 may be 2001 to 2002, or is a year alone.
func isSeason(cell string, t time.Time) bool {
	return len(cell) == len("2001") || len(cell) == len("2001-02") && int(t.Month()) == (t.Year()+1)%100
}

func exists(year, month, day int) bool {
	return year > 0 && month >= 1 && month <= 12 && day >= 1 && day <= time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// The parts of patterns. A number behind the name of a part tells alternatives apart.
const (
	spaces    = `[ \x{a0}\x{202f}]`
	dayPart   = `(?P<day>\d\d?)(?:st|nd|rd|th|er)?`
	namePart  = `(?P<name>\pL+)`
	yearPart  = `(?P<year>\d{4}|\d\d)`
	apartPart = `(?:[.,](?:` + spaces + `+|[-/])?|` + spaces + `+|[-/])(?:de )?`
	clockPart = `(?:(?P<hour>\d\d?)(?:[:.h](?P<minute>\d\d)(?:[:.](?P<second>\d\d)(?P<fraction>[.,]\d+)?)?)?|` +
		`(?P<hour2>\d\d)(?P<minute2>\d\d)(?:(?P<second2>\d\d)(?P<fraction2>[.,]\d+)?)?)(?:` + spaces + `*(?P<half>[ap])\.?m\.?)?` +
		// What follows an offset names it again: +02:00[Europe/Oslo].
		`(?:` + spaces + `*(?:Z|(?:UTC|GMT)?(?P<sign>[-+])(?P<east>\d\d?)(?::?(?P<minutes>\d\d))?|UTC|GMT|(?P<zone>\pL+))(?: *\[.*)?)?`
	// Between the date and the time of the day.
	betweenPart = `[T_]|,?` + spaces + `+`
	beginning   = `(?i)^(?:(?:mon|tue|wed|thu|fri|sat|sun|tuesday|wednesday|thursday|saturday|(?:mon|fri|sun)day)[,.]?` + spaces + `+)?`
	// A time of the day may follow.
	ending = `)` + clockPart + spaces + `*)?$`
)

var (
	yearFirst = regexp.MustCompile(beginning + `(?P<year>\d{4})(?:[- ]*Q(?P<quarter>[1-4])|M(?P<month3>\d\d)|[- ]*W(?P<week>\d\d)|` +
		`[-/.年](?P<month>\d\d?)[-/.月](?P<day>\d\d?)日?|-(?P<month2>\d\d?))(?:(?:` + betweenPart + ending)
	digitsAlone = regexp.MustCompile(beginning + `(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)(?:(?:|` + betweenPart + ending)
	american    = regexp.MustCompile(beginning + `(?P<month>\d\d?)(?:/(?P<day>\d\d?)/` + yearPart +
		`|-(?P<day2>\d\d?)-(?P<year2>\d{4}|\d\d)|[-/](?P<year3>(?:19|20)\d\d))(?:(?:` + betweenPart + ending)
	european = regexp.MustCompile(beginning + `(?P<day>\d\d?)(?:[/.](?P<month>\d\d?)[/.]` + yearPart +
		`|-(?P<month2>\d\d?)-(?P<year2>\d{4}|\d\d))(?:(?:` + betweenPart + ending)
	dayName = regexp.MustCompile(`(?i)^(?:\pL+[,.]?` + spaces + `+)?` + dayPart + `(?:` + apartPart + `)?` + namePart + `(?:` + apartPart + `)?` + yearPart + `(?:(?::|` + betweenPart + ending)
	nameDay = regexp.MustCompile(beginning + `(?:(?:Q(?P<quarter>[1-4])|(?P<quarter2>[1-4])Q)[- /]*(?P<year4>\d{4})|` + namePart + `(?:(?:` + apartPart + `)?` + dayPart +
		apartPart + yearPart + `|(?:` + apartPart + `)?(?P<year2>\d{4})|-(?P<year3>\d\d)))(?:(?:` + betweenPart + ending)
	yearLast = regexp.MustCompile(beginning + namePart + `(?:` + apartPart + `)?` + dayPart + apartPart + clockPart + spaces + `+` + yearPart + `$`)
)

func (f Form) pattern() *regexp.Regexp {
	switch f {
	case yearMonthDay:
		return yearFirst
	case eightDigits:
		return digitsAlone
	case monthDayYear:
		return american
	case dayMonthYear:
		return european
	case dayNamedYear:
		return dayName
	case namedDayYear:
		return nameDay
	default:
		return yearLast
	}
}

// split returns the parts of a cell, nil for a cell of another form.
func (f Form) split(cell string) parts {
	pattern := f.pattern()
	found := pattern.FindStringSubmatch(cell)
	if found == nil {
		return nil
	}
	p := make(parts, len(found))
	for i, name := range pattern.SubexpNames() {
		if found[i] != "" {
			p[strings.TrimRight(name, "234")] = found[i]
		}
	}
	return p
}

// monthOf is the month of a name in fourteen languages, or 0.
func monthOf(name string) int {
	name = strings.ToLower(name)
	const longest = len("сентября")
	for m, beginnings := range [...]string{
		"jan ene gen sty янв oca", "feb fév fev lut фев şub", "mar mär mrz maa mrt мар", "apr avr abr kwi апр nis", "may mai mei mag maj мая май",
		"jun juin giu cze июн haz", "jul juil lug lip июл tem", "aug aoû aou ago sie авг ağu", "sep set wrz сен eyl", "oct okt ott out paź окт eki", "nov lis ноя kas",
		"dec dez des dic déc gru дек ara",
	} {
		for beginning := range strings.FieldsSeq(beginnings) {
			if len(name) <= longest && strings.HasPrefix(name, beginning) {
				return m + 1
			}
		}
	}
	return 0
}

// parts are the parts of a time by their names.
type parts map[string]string

func (p parts) number(name string) int {
	v, _ := strconv.Atoi(p[name]) // Digits, or none.
	return v
}

// date returns the date. A year of two digits is 1969 to 2068, and a month, a quarter or a week is its first day.
func (p parts) date() (year, month, day int) {
	if year = p.number("year"); len(p["year"]) == 2 {
		if year += 1900; year < 1969 {
			year += 100
		}
	}
	month, day = p.number("month"), p.number("day")
	if p["day"] == "" {
		day = 1
	}
	switch week := p.number("week"); {
	case p["name"] != "":
		month = monthOf(p["name"])
	case p["quarter"] != "":
		month = 3*p.number("quarter") - 2
	case week >= 1 && week <= 53: // Of ISO 8601: the fourth of January is in the first.
		first := time.Date(year, 1, 4, 0, 0, 0, 0, time.UTC)
		first = first.AddDate(0, 0, 7*(week-1)-(int(first.Weekday())+6)%7)
		if _, exists := first.ISOWeek(); exists != week {
			return 0, 0, 0
		}
		return first.Year(), int(first.Month()), first.Day()
	}
	return year, month, day
}

// clock returns the time of the day as what follows midnight. An hour alone is none, but behind eight digits.
func (p parts) clock(f Form) (after time.Duration, ok bool) {
	hour, minute, second, nanos := p.number("hour"), p.number("minute"), p.number("second"), nanosOf(p["fraction"])
	ok = p["hour"] == "" || p["minute"] != "" || f == eightDigits && len(p["hour"]) == len("15")
	if half := p["half"]; half != "" {
		ok = hour >= 1 && hour <= 12
		if hour %= 12; strings.EqualFold(half, "p") {
			hour += 12
		}
	}
	end := hour == 24 && minute == 0 && second == 0 && nanos == 0
	ok = ok && (hour < 24 || end) && minute < 60 && second <= 60
	return time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(second)*time.Second + nanos, ok
}

// nanosOf are the nanoseconds of a fraction of a second, with its mark or without.
func nanosOf(fraction string) time.Duration {
	nanos, _ := strconv.Atoi((strings.TrimLeft(fraction, ".,") + "000000000")[:9])
	return time.Duration(nanos)
}

// offset returns the seconds east of UTC. Of zones without their offset, RFC 822's and Europe's are known.
func (p parts) offset() (seconds int, ok bool) {
	const west = 8
	hours, minutes := p.number("east"), p.number("minutes")
	seconds, ok = hours*3600+minutes*60, hours < 24 && minutes < 60
	if p["sign"] == "-" {
		seconds = -seconds
	}
	if p["zone"] == "" {
		return seconds, ok
	}
	for n, names := range [...]string{"PST", "MST PDT", "CST MDT", "EST CDT", "EDT", "", "", "", "WET", "BST WEST CET MEZ", "CEST MESZ EET", "EEST MSK"} {
		if slices.Contains(strings.Fields(names), p["zone"]) {
			return (n - west) * 3600, true
		}
	}
	return 0, false
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
		if s.fits > 0 && 2*s.dated >= s.fits && (best == nil || more > 0 || more == 0 && best.descends > 0 && s.descends == 0) {
			best = s
		}
	}
	if best == nil || c.ordered == nil {
		return best
	}
	for i := range c.times {
		if s := &c.times[i]; s.form.isOrdered(*c.ordered) && s.fits+s.open == best.fits+best.open {
			return s
		}
	}
	return best
}

// isOrdered reports whether dates of a form, whose months are numbers, have the day first, or the month.
func (f Form) isOrdered(day bool) bool {
	if day {
		return f == dayMonthYear || f == dayFirst
	}
	return f == monthDayYear || f == monthFirst
}

// agree gives columns whose dates could also be swapped the order of the others, if these have one.
func agree(columns []*column) {
	var open []*column
	var known [2]bool // The month first, the day first.
	for _, c := range columns {
		best := c.bestTime()
		switch {
		case best == nil || c.ordered != nil || !areFew(best.odd.count, c.cells-c.gaps):
		case c.swappable(best):
			open = append(open, c)
		case best.daily:
			known[0], known[1] = known[0] || best.form.isOrdered(false), known[1] || best.form.isOrdered(true)
		}
	}
	if known[0] != known[1] {
		for _, c := range open {
			c.ordered = &known[1]
		}
	}
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
	swappable := c.swappable(best)
	switch {
	case swappable && c.ordered != nil:
		out.Reason += ", as other dates of the file"
	case swappable:
		out.Reason += ", where day and month could also be swapped"
	}
	if day := best.form.isOrdered(true); (swappable || best.daily) && (day || best.form.isOrdered(false)) {
		in.DayFirst = &day
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
		return s.fits == best.fits && (s.descends == 0) == (best.descends == 0) && s.read != best.read
	})
}
