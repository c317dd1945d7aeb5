package input

import "math"

// Time is a moment, and how far the clock was ahead of UTC that wrote it.
type Time struct {
	// Seconds since 1970 in UTC, and the nanoseconds after them.
	Seconds int64
	Nanos   int32
	// Offset is how many minutes local time is ahead of UTC.
	Offset int16
}

const (
	secondsOfDay = 86_400
	// Times are of the years 0 to 9999, in UTC a day more on either side.
	minSeconds = -62_167_219_200 - secondsOfDay
	maxSeconds = 253_402_300_799 + secondsOfDay
	maxOffset  = 24*60 - 1
)

// valid tells whether a text could say t.
func (t Time) valid() bool {
	return t.Seconds >= minSeconds && t.Seconds <= maxSeconds &&
		t.Nanos >= 0 && t.Nanos < 1e9 && t.Offset >= -maxOffset && t.Offset <= maxOffset
}

// number is t in seconds, rounded to a double.
func (t Time) number() float64 { return float64(t.Seconds) + float64(float64(t.Nanos)*1e-9) }

// ParseTime reads a date-time as RFC 3339 writes it, such as
// 2026-11-21T18:00:00.5+01:00, with T and Z in capitals. It allocates nothing.
// Digits of a second beyond the ninth are dropped. A leap second is refused.
func ParseTime(s string) (Time, bool) {
	if len(s) < len("2006-01-02T15:04:05Z") ||
		s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' {
		return Time{}, false
	}
	ok := true
	pair := func(at, least, most int) int {
		a, b := s[at]-'0', s[at+1]-'0'
		v := 10*int(a) + int(b)
		ok = ok && a <= 9 && b <= 9 && v >= least && v <= most
		return v
	}
	year := 100*pair(0, 0, 99) + pair(2, 0, 99)
	month := pair(5, 1, 12)
	day := pair(8, 1, 31)
	second := 3600*pair(11, 0, 23) + 60*pair(14, 0, 59) + pair(17, 0, 59)
	if !ok || day > daysOf(year, month) {
		return Time{}, false
	}
	rest := 19
	var nanos int32
	if s[rest] == '.' {
		rest++
		from, unit := rest, int32(1e8)
		for ; rest < len(s) && s[rest]-'0' <= 9; rest++ {
			nanos += int32(s[rest]-'0') * unit
			unit /= 10
		}
		if rest == from {
			return Time{}, false
		}
	}
	offset := 0
	switch {
	case len(s) == rest+1 && s[rest] == 'Z':
	case len(s) == rest+6 && (s[rest] == '+' || s[rest] == '-') && s[rest+3] == ':':
		offset = 60*pair(rest+1, 0, 23) + pair(rest+4, 0, 59)
		if s[rest] == '-' {
			offset = -offset
		}
	default:
		return Time{}, false
	}
	return Time{
		Seconds: secondsOfDay*daysSince1970(year, month, day) + int64(second-60*offset),
		Nanos:   nanos, Offset: int16(offset),
	}, ok
}

func isLeap(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

func daysOf(year, month int) int {
	switch month {
	case 2:
		if isLeap(year) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	default:
		return 31
	}
}

// daysSince1970 counts the days of the Gregorian calendar. A year is taken to
// begin in March, so that the leap day is its last.
//
// Source: Hinnant, chrono-Compatible Low-Level Date Algorithms (2013).
func daysSince1970(year, month, day int) int64 {
	if month <= 2 {
		year--
	}
	era := floorDiv(int64(year), 400)
	yearOfEra := int64(year) - 400*era
	dayOfYear := int64((153*((month+9)%12)+2)/5 + day - 1)
	dayOfEra := 365*yearOfEra + yearOfEra/4 - yearOfEra/100 + dayOfYear
	return 146_097*era + dayOfEra - 719_468
}

// yearOf is the year that has a day, and how many days of it have passed.
func yearOf(days int64) (year int, passed int64) {
	shifted := days + 719_468
	era := floorDiv(shifted, 146_097)
	dayOfEra := shifted - 146_097*era
	yearOfEra := (dayOfEra - dayOfEra/1_460 + dayOfEra/36_524 - dayOfEra/146_096) / 365
	year = int(yearOfEra + 400*era)
	// This year began in March; the next January is 306 days later.
	if dayOfEra-(365*yearOfEra+yearOfEra/4-yearOfEra/100) >= 306 {
		year++
	}
	return year, days - daysSince1970(year, 1, 1)
}

// floorDiv is ⌊a/b⌋ for b > 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// cycle is one of the cycles of a time, in the order of their features.
type cycle int

const (
	hourOfDay cycle = iota
	dayOfWeek
	dayOfYear
	cycles
)

// angle is how much of a cycle has passed, times 2π.
func (c cycle) angle(t Time) float64 {
	local := t.Seconds + 60*int64(t.Offset)
	day := floorDiv(local, secondsOfDay)
	passed := local - secondsOfDay*day
	length := int64(secondsOfDay)
	switch c {
	case dayOfWeek:
		const thursday = 3 // 1 January 1970.
		passed += secondsOfDay * (day + thursday - 7*floorDiv(day+thursday, 7))
		length *= 7
	case dayOfYear:
		year, days := yearOf(day)
		passed += secondsOfDay * days
		length *= 365
		if isLeap(year) {
			length += secondsOfDay
		}
	default:
	}
	part := (float64(passed) + float64(float64(t.Nanos)*1e-9)) / float64(length)
	return float64(2 * math.Pi * part)
}

// days are those from since to t.
func (t Time) days(since Time) float64 {
	seconds := float64(t.Seconds-since.Seconds) + float64(float64(t.Nanos-since.Nanos)*1e-9)
	return seconds / secondsOfDay
}
