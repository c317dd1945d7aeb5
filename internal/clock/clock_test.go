package clock_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"hindsight/internal/clock"
)

// machine has clocks that the test moves.
type machine struct {
	clock.Reading
	// steady is the clock under test, told what it told.
	steady *clock.Steady
	told   []string
}

func newMachine() *machine {
	m := &machine{Reading: clock.Reading{Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
	m.steady = clock.Over(func() clock.Reading { return m.Reading }, func(by time.Duration, followed bool) {
		m.told = append(m.told, fmt.Sprint(by, " ", followed))
	})
	return m
}

// pass lets time pass, by the second as a server looks at it.
func (m *machine) pass(d time.Duration) {
	for ; d > 0; d -= time.Second {
		m.Now, m.Passed = m.Now.Add(time.Second), m.Passed+time.Second
		m.steady.Now()
	}
}

// set sets the time of day.
func (m *machine) set(by time.Duration) { m.Now = m.Now.Add(by) }

// A jump of any direction that is corrected within an hour moves nothing. One that stays
// is followed after the hour.
func TestJumps(t *testing.T) {
	for _, by := range []time.Duration{400 * 24 * time.Hour, time.Minute, -time.Minute, -400 * 24 * time.Hour} {
		m := newMachine()
		m.pass(10 * time.Minute)
		before := m.steady.Now()
		m.set(by)
		if got := m.steady.Now(); got != before {
			t.Errorf("a jump of %v moves the clock by %v", by, got.Sub(before))
		}
		m.pass(59 * time.Minute)
		assert.Equal(t, 59*time.Minute, m.steady.Now().Sub(before), by)
		m.set(-by)
		assert.Equal(t, 59*time.Minute, m.steady.Now().Sub(before), by)
		m.pass(time.Hour)
		m.set(by)
		m.pass(time.Hour + 2*time.Second)
		got, want := m.steady.Now(), m.Now
		assert.True(t, got.Equal(want), "an hour after a jump of %v the clock shows %v, want %v", by, got, want)
		assert.Equal(t, []string{fmt.Sprint(by, " false"), fmt.Sprint(by, " false"), fmt.Sprint(by, " true")}, m.told)
	}
}

// A clock that is set a little, or that drifts for long, is followed at once.
func TestDrift(t *testing.T) {
	m := newMachine()
	for range 24 * 60 {
		m.pass(time.Minute)
		m.set(30 * time.Millisecond) // 500 ppm.
	}
	m.set(-5 * time.Second)
	got := m.steady.Now()
	assert.True(t, got.Equal(m.Now) && len(m.told) == 0, "the clock shows %v at %v, and tells %q", got, m.Now, m.told)
}

// The clock of the machine has a monotonic part.
func TestMonotonic(t *testing.T) {
	c := clock.New(time.Now, func(by time.Duration, _ bool) { t.Errorf("a jump of %v", by) })
	a, b := c.Now(), time.Now()
	assert.True(t, b.Sub(a) >= 0 && b.Sub(a) <= time.Minute && strings.Contains(a.String(), " m=+"), "%v at %v", a, b)
}
