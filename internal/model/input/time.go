package input

import (
	"math"
	"strings"
	"time"
)

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

// valid reports whether a text could say t.
func (t Time) valid() bool {
	return t.Seconds >= minSeconds && t.Seconds <= maxSeconds &&
		t.Nanos >= 0 && t.Nanos < 1e9 && t.Offset >= -maxOffset && t.Offset <= maxOffset
}

// number is t in seconds, rounded to a double.
func (t Time) number() float64 { return float64(t.Seconds) + float64(float64(t.Nanos)*1e-9) }

// ParseTime reads a date-time as RFC 3339 writes it, such as 2026-11-21T18:00:00.5+01:00,
// with T and Z in capitals. Digits beyond nanoseconds are dropped, leap seconds are rejected.
func ParseTime(s string) (Time, bool) {
	var parsed time.Time
	err := parsed.UnmarshalText([]byte(s))
	_, ahead := parsed.Zone()
	t := Time{Seconds: parsed.Unix(), Nanos: int32(parsed.Nanosecond()), Offset: int16(ahead / 60)}
	// UnmarshalText takes an offset of 24 hours, one of 60 minutes, and a decimal comma.
	return t, err == nil && t.valid() && !strings.HasSuffix(s, ":60") && !strings.Contains(s, ",")
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
	local := time.Unix(t.Seconds+60*int64(t.Offset), 0).UTC()
	hour, minute, second := local.Clock()
	passed, days := 3600*hour+60*minute+second, 1
	switch c {
	case dayOfWeek:
		passed += secondsOfDay * int((local.Weekday()+6)%7) // A week begins on Monday.
		days = 7
	case dayOfYear:
		passed += secondsOfDay * (local.YearDay() - 1)
		days = time.Date(local.Year(), time.December, 31, 0, 0, 0, 0, time.UTC).YearDay()
	default:
	}
	part := (float64(passed) + float64(float64(t.Nanos)*1e-9)) / float64(days*secondsOfDay)
	return float64(2 * math.Pi * part)
}

func (t Time) days(since Time) float64 {
	seconds := float64(t.Seconds-since.Seconds) + float64(float64(t.Nanos-since.Nanos)*1e-9)
	return seconds / secondsOfDay
}
