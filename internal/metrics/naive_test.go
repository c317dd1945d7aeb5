package metrics_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"hindsight/internal/metrics"
)

// naive computes the lines of a scrape anew from all that has happened. It
// shares no code with the package.
type naive struct {
	limit int
	// own has the decision on each model, held those whose timings are in use.
	own, held map[id]bool
	// last and grown are what only grows, of each model among the others and of
	// each learner.
	last  map[id][]float64
	grown map[string][]float64
	// counts are the counters of each model with series of its own, by their series.
	counts map[id]map[string]counted
	// durations are those of Predict and of Observe.
	durations map[id]*[2][]float64
}

// counted is a number of a state at the last scrape, and the sum of its falls.
type counted struct{ last, lost float64 }

// rise keeps the counters among the lines of a model from falling.
func (n *naive) rise(k id, lines []string) []string {
	next := map[string]counted{}
	for i, line := range lines {
		at := strings.LastIndexByte(line, ' ')
		series := line[:at]
		if !strings.Contains(series, "_total{") {
			continue
		}
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			panic(err)
		}
		c := n.counts[k][series]
		if v < c.last {
			c.lost += c.last - v
		}
		c.last = v
		next[series] = c
		lines[i] = series + " " + number(v+c.lost)
	}
	n.counts[k] = next
	return lines
}

type id struct{ model, learner string }

func newNaive(limit int) *naive {
	return &naive{
		limit: limit, own: map[id]bool{}, held: map[id]bool{},
		counts: map[id]map[string]counted{}, last: map[id][]float64{}, grown: map[string][]float64{}, durations: map[id]*[2][]float64{},
	}
}

func (n *naive) decide(k id) bool {
	own, known := n.own[k]
	if !known {
		taken := 0
		for _, o := range n.own {
			if o {
				taken++
			}
		}
		own = taken < n.limit && k.model != metrics.Other && utf8.ValidString(k.model)
		n.own[k] = own
	}
	return own
}

// series are those that the model is shown in.
func (n *naive) series(k id) id {
	if n.decide(k) {
		return k
	}
	return id{metrics.Other, k.learner}
}

func (n *naive) time(k id, of int, seconds float64) {
	n.held[k] = true
	s := n.series(k)
	if n.durations[s] == nil {
		n.durations[s] = new([2][]float64)
	}
	if of >= 0 {
		n.durations[s][of] = append(n.durations[s][of], seconds)
	}
}

func (n *naive) forget(k id) {
	if n.own[k] {
		delete(n.durations, k)
		delete(n.counts, k)
	}
	delete(n.own, k)
	delete(n.held, k)
}

// growing are the numbers that only grow.
func growing(m Model) []float64 {
	return append(classSums(m.Classifier),
		float64(m.Observations), float64(m.Predictions), float64(m.ExpiredLabels), m.PrequentialLoss, m.ServedLoss,
		m.PrequentialBaselines.Mean, m.PrequentialBaselines.Last, m.ServedBaselines.Mean, m.ServedBaselines.Last,
		float64(m.ServedObservations), float64(m.Drift.Detected-m.Drift.Rises), float64(m.Drift.Rises),
		float64(m.Duplicates), float64(m.Conflicts), ofGate(m, m.Gate.SetAside), ofGate(m, m.Gate.Starts))
}

// growingNumbers is how many growing yields.
const growingNumbers = classSumsNumbers + 16

// ofGate is a count of the label gate, NaN without one.
func ofGate(m Model, count uint64) float64 {
	if !m.Gate.On {
		return math.NaN()
	}
	return float64(count)
}

func known(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// scrape yields the lines of models, sorted.
func (n *naive) scrape(models []Model) []string {
	var lines []string
	listed := map[id]bool{}
	others := map[string][]Model{}
	for _, m := range models {
		k := id{m.Name, m.Learner}
		listed[k] = true
		if n.decide(k) {
			lines = append(lines, n.rise(k, n.lines(m))...)
			continue
		}
		others[m.Learner] = append(others[m.Learner], m)
		if n.last[k] == nil {
			n.last[k] = make([]float64, growingNumbers)
		}
		if n.grown[m.Learner] == nil {
			n.grown[m.Learner] = slices.Repeat([]float64{math.NaN()}, growingNumbers)
		}
		for i, v := range growing(m) {
			if g := n.grown[m.Learner]; known(v) {
				if !known(g[i]) {
					g[i] = 0
				}
				g[i] += max(0, v-n.last[k][i])
				n.last[k][i] = v
			}
		}
	}
	for learner, all := range others {
		g := n.grown[learner][classSumsNumbers:]
		m := Model{
			Name: metrics.Other, Learner: learner, CertificateOK: true, Observations: uint64(g[0]), Predictions: uint64(g[1]),
			ExpiredLabels: uint64(g[2]), PrequentialLoss: g[3], ServedLoss: g[4],
			PrequentialBaselines: Baselines{Mean: g[5], Last: g[6]}, ServedBaselines: Baselines{Mean: g[7], Last: g[8]},
			ServedObservations: uint64(g[9]), Drift: Drift{Detected: uint64(g[10] + g[11]), Rises: uint64(g[11]), LossBefore: math.NaN(), LossAfter: math.NaN()},
			PrequentialSkill: math.NaN(), ServedSkill: math.NaN(), Duplicates: uint64(g[12]), Conflicts: uint64(g[13]), Behind: math.NaN(),
			Recent:     Recent{Observations: 1000, MeanLoss: math.NaN(), Skill: math.NaN()},
			Classifier: togetherClasses(n.grown[learner], all),
		}
		if known(g[14]) {
			m.Gate = Gate{On: true, SetAside: uint64(g[14]), Starts: uint64(g[15])}
		}
		shift := math.NaN()
		for _, o := range all {
			m.Regret += o.Regret
			m.RegretBound += o.RegretBound
			m.ServedRegret += o.ServedRegret
			m.PrequentialSkill = leastKnown(m.PrequentialSkill, o.PrequentialSkill)
			m.ServedSkill = leastKnown(m.ServedSkill, o.ServedSkill)
			if o.Recent.Observations >= 1000 {
				m.Recent.Skill = leastKnown(m.Recent.Skill, o.Recent.Skill)
			}
			m.RegretAge = max(m.RegretAge, o.RegretAge)
			shift = mostKnown(shift, largestShift(o))
			m.CertificateOK = m.CertificateOK && o.CertificateOK
			m.ReadOnly = m.ReadOnly || o.ReadOnly
			m.Features += o.Features
			m.StateBytes += o.StateBytes
			m.PendingLabels += o.PendingLabels
			m.Queued += o.Queued
			m.PendingLimit += o.PendingLimit
			m.Dictionary += o.Dictionary
			m.Behind = mostKnown(m.Behind, o.Behind)
			if !o.SnapshotTime.IsZero() && (m.SnapshotTime.IsZero() || o.SnapshotTime.Before(m.SnapshotTime)) {
				m.SnapshotTime = o.SnapshotTime
			}
			m.SnapshotBytes = max(m.SnapshotBytes, o.SnapshotBytes)
			m.Unsnapshotted += o.Unsnapshotted
			m.ReplaySeconds += o.ReplaySeconds
		}
		m.Intervals = together(all)
		m.Inputs = []Input{{Shift: shift}} // Only the largest one is shown.
		lines = append(lines, n.lines(m)...)
	}
	for k := range n.last {
		if !listed[k] {
			delete(n.last, k)
		}
	}
	for k := range n.own {
		if !listed[k] && !n.held[k] {
			delete(n.counts, k)
			delete(n.own, k)
		}
	}
	for k, d := range n.durations {
		for i, name := range []string{"predict", "observe"} {
			lines = append(lines, histogram("hindsight_"+name+"_seconds", k, d[i])...)
		}
	}
	slices.Sort(lines)
	return lines
}

// leastKnown is the smaller number of those that are known.
func leastKnown(a, b float64) float64 {
	if !known(a) || known(b) && b < a {
		return b
	}
	return a
}

// together are the intervals that models without series of their own show: of
// each of the first ten levels, the least coverage.
func together(models []Model) []Interval {
	var all []Interval
	for _, m := range models {
		for _, in := range levels(m) {
			at := slices.IndexFunc(all, func(o Interval) bool { return o.Coverage == in.Coverage })
			if at < 0 && len(all) < 10 {
				at = len(all)
				all = append(all, Interval{
					Coverage: in.Coverage, Judged: 1000, Realised: math.NaN(), Recent: math.NaN(), MeanWidth: math.NaN(), MeanScore: math.NaN(),
				})
			}
			if at < 0 {
				continue
			}
			all[at].Realised = leastKnown(all[at].Realised, in.Realised)
			if in.Judged >= 1000 {
				all[at].Recent = leastKnown(all[at].Recent, in.Recent)
			}
		}
	}
	return all
}

// levels are the intervals of m, the first at each level.
func levels(m Model) []Interval {
	var all []Interval
	seen := map[float64]bool{}
	for _, in := range m.Intervals {
		if known(in.Coverage) && !seen[in.Coverage] {
			all = append(all, in)
		}
		seen[in.Coverage] = true
	}
	return all[:min(len(all), 10)]
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func labels(k id) string {
	escape := func(s string) string {
		s = strings.ReplaceAll(s, `\`, `\\`)
		s = strings.ReplaceAll(s, "\n", `\n`)
		return strings.ReplaceAll(s, `"`, `\"`)
	}
	return fmt.Sprintf(`learner="%s",model="%s"`, escape(k.learner), escape(k.model))
}

func (n *naive) lines(m Model) []string {
	var lines []string
	show := func(name string, v float64) {
		if known(v) {
			lines = append(lines, name+labels(id{m.Name, m.Learner})+"} "+number(v))
		}
	}
	for name, v := range map[string]float64{
		`hindsight_baseline_loss_total{baseline="mean",kind="prequential",`: m.PrequentialBaselines.Mean,
		`hindsight_baseline_loss_total{baseline="last",kind="prequential",`: m.PrequentialBaselines.Last,
		`hindsight_baseline_loss_total{baseline="mean",kind="served",`:      m.ServedBaselines.Mean,
		`hindsight_baseline_loss_total{baseline="last",kind="served",`:      m.ServedBaselines.Last,

		"hindsight_certificate_ok{":                        map[bool]float64{true: 1}[m.CertificateOK],
		`hindsight_drift_detected_total{direction="fall",`: float64(m.Drift.Detected - m.Drift.Rises),
		`hindsight_drift_detected_total{direction="rise",`: float64(m.Drift.Rises),
		"hindsight_expired_labels_total{":                  float64(m.ExpiredLabels),
		"hindsight_features{":                              float64(m.Features),
		`hindsight_loss_total{kind="prequential",`:         m.PrequentialLoss,
		`hindsight_loss_total{kind="served",`:              m.ServedLoss,
		"hindsight_observations_total{":                    float64(m.Observations),
		"hindsight_pending_labels{":                        float64(m.PendingLabels),
		"hindsight_predictions_total{":                     float64(m.Predictions),
		"hindsight_read_only{":                             map[bool]float64{true: 1}[m.ReadOnly],
		"hindsight_regret{":                                m.Regret,
		"hindsight_regret_age_observations{":               float64(m.RegretAge),
		"hindsight_regret_bound{":                          m.RegretBound,
		"hindsight_served_observations_total{":             float64(m.ServedObservations),
		"hindsight_served_regret{":                         m.ServedRegret,
		`hindsight_skill{kind="prequential",`:              m.PrequentialSkill,
		`hindsight_skill{kind="served",`:                   m.ServedSkill,
		"hindsight_state_bytes{":                           float64(m.StateBytes),

		"hindsight_labels_set_aside_total{":       ofGate(m, m.Gate.SetAside),
		"hindsight_learner_starts_total{":         ofGate(m, m.Gate.Starts),
		"hindsight_conflicts_total{":              float64(m.Conflicts),
		"hindsight_dictionary_centres{":           float64(m.Dictionary),
		"hindsight_duplicates_total{":             float64(m.Duplicates),
		"hindsight_follower_behind_observations{": m.Behind,
		"hindsight_pending_labels_limit{":         float64(m.PendingLimit),
		"hindsight_queued_observations{":          float64(m.Queued),
		"hindsight_replay_estimate_seconds{":      m.ReplaySeconds,
		"hindsight_unsnapshotted_observations{":   float64(m.Unsnapshotted),
	} {
		show(name, v)
	}
	if m.SnapshotBytes > 0 {
		show("hindsight_snapshot_bytes{", float64(m.SnapshotBytes))
	}
	if !m.SnapshotTime.IsZero() {
		show("hindsight_snapshot_timestamp_seconds{", float64(m.SnapshotTime.UnixNano())/1e9)
	}
	show("hindsight_largest_input_shift{", largestShift(m))
	lines = append(append(lines, classLines(m)...), partLines(m)...)
	if m.Recent.Observations >= 1000 {
		show("hindsight_recent_loss{", m.Recent.MeanLoss)
		show("hindsight_recent_skill{", m.Recent.Skill)
	}
	if m.Drift.Detected > 0 && m.Name != metrics.Other {
		show("hindsight_drift_last_change_sequence{", float64(m.Drift.Sequence))
		show("hindsight_drift_loss_before{", m.Drift.LossBefore)
		show("hindsight_drift_loss_after{", m.Drift.LossAfter)
	}
	for _, in := range levels(m) {
		show(levelSeries("nominal_coverage", in), in.Coverage)
		show(levelSeries("realised_coverage", in), in.Realised)
		show(levelSeries("mean_width", in), in.MeanWidth)
		show(levelSeries("mean_score", in), in.MeanScore)
		if in.Judged >= 1000 {
			show(levelSeries("recent_coverage", in), in.Recent)
		}
	}
	return lines
}

func levelSeries(name string, in Interval) string {
	return fmt.Sprintf(`hindsight_interval_%s{coverage="%s",`, name, number(in.Coverage))
}

func histogram(name string, k id, durations []float64) []string {
	var lines []string
	for _, le := range []string{
		"1e-06", "2.5e-06", "5e-06", "1e-05", "2.5e-05", "5e-05", "0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005",
		"0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf",
	} {
		bound, err := strconv.ParseFloat(le, 64)
		if err != nil {
			panic(err)
		}
		count := 0
		for _, d := range durations {
			if d <= bound {
				count++
			}
		}
		lines = append(lines, fmt.Sprintf(`%s_bucket{%s,le="%s"} %s`, name, labels(k), le, number(float64(count))))
	}
	total := 0.0
	for _, d := range durations {
		total += d
	}
	return append(lines,
		fmt.Sprintf("%s_sum{%s} %s", name, labels(k), number(total)),
		fmt.Sprintf("%s_count{%s} %d", name, labels(k), len(durations)))
}

// Models come, are used, are set back and go, and move between series of their
// own and "other"; after each step both outputs are what naive computes.
func TestScrapesAgainstNaive(t *testing.T) {
	steps := 25
	if os.Getenv("HINDSIGHT_E2E") != "" {
		steps = 200
	}
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 1))
		limit := 1 + rng.IntN(4)
		m, src := watch(t, limit)
		n := newNaive(limit)
		names := []string{"a", "b", "c", "d", metrics.Other, `quo"te`, "back\\slash", "new\nline", "ünï©ode", "\xff\xfe", ""}
		learners := []string{"linear_awv", "raker", "odd\"\\\n"}
		live := map[id]Model{}
		timings := map[id]metrics.Timings{}
		for step := range steps {
			k := id{names[rng.IntN(len(names))], learners[rng.IntN(len(learners))]}
			model, lives := live[k]
			switch op := rng.IntN(10); {
			case !lives:
				live[k] = change(rng, Model{Name: k.model, Learner: k.learner})
			case op == 0:
				delete(live, k)
				// The source may cease to list a model that is not forgotten.
				if _, timed := timings[k]; timed && rng.IntN(2) == 0 {
					m.Forget(k.model, k.learner)
					n.forget(k)
					delete(timings, k)
				}
			case op == 1: // It is set back.
				live[k] = change(rng, Model{Name: k.model, Learner: k.learner})
			case op < 6:
				live[k] = change(rng, model)
			default:
				timings[k] = m.Timings(k.model, k.learner)
				n.time(k, -1, 0)
				for range rng.IntN(3) {
					seconds := math.Exp(4*rng.NormFloat64() - 7)
					timings[k].Predict(seconds, "")
					n.time(k, 0, seconds)
					timings[k].Observe(2*seconds, "")
					n.time(k, 1, 2*seconds)
				}
			}
			order := slices.SortedFunc(maps.Keys(live), func(a, b id) int { return strings.Compare(a.model+a.learner, b.model+b.learner) })
			var models []Model
			for _, k := range order {
				models = append(models, live[k])
			}
			src.set(models...)
			text, general := both(t, m, step%2 == 0)
			if text != general {
				t.Fatalf("seed %d, step %d: the text is\n%s\nand expfmt prints\n%s", seed, step, text, general)
			}
			if got, want := ofModels(text), n.scrape(models); !slices.Equal(got, want) {
				t.Fatalf("seed %d, step %d:\n%s\nwant\n%s", seed, step, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
}

// change lets a model live on a little.
func change(rng *rand.Rand, m Model) Model {
	m.Observations += rng.Uint64N(1 << rng.IntN(30))
	m.Predictions += rng.Uint64N(1000)
	m.ExpiredLabels += rng.Uint64N(3)
	m.PrequentialLoss += float64(rng.IntN(1000)) / 4 // Exact, in any order of summation.
	m.ServedLoss += float64(rng.IntN(1000)) / 4
	m.Regret = float64(rng.IntN(100)-50) / 4
	m.RegretBound = float64(rng.IntN(100)) * 1e12
	m.RegretAge = rng.Uint64N(10)
	m.CertificateOK, m.ReadOnly = rng.IntN(5) > 0, rng.IntN(5) == 0
	m.Features, m.StateBytes, m.PendingLabels = rng.IntN(1000), rng.Uint64N(1<<40), rng.Uint64N(5)
	if rng.IntN(6) == 0 {
		m.RegretBound = math.NaN()
	}
	if rng.IntN(12) == 0 {
		m.Regret = math.Inf(1)
	}
	m.Duplicates += rng.Uint64N(4)
	m.Conflicts += rng.Uint64N(2)
	if m.Gate.On = len(m.Name)%2 == 1; m.Gate.On {
		m.Gate.SetAside += rng.Uint64N(3)
		m.Gate.Starts += rng.Uint64N(2)
	}
	m.PendingLimit = 1 + rng.Int64N(1000)
	m.Queued, m.Dictionary, m.Unsnapshotted = rng.IntN(9), rng.IntN(300), rng.Uint64N(1000)
	m.Behind, m.ReplaySeconds, m.SnapshotBytes = float64(rng.IntN(100)), float64(rng.IntN(100))/4, rng.Int64N(4)*1000
	if rng.IntN(3) == 0 {
		m.Behind = math.NaN()
	}
	m.SnapshotTime = time.Time{}
	if rng.IntN(4) > 0 {
		m.SnapshotTime = time.Unix(1_700_000_000+rng.Int64N(1e6), 0)
	}
	return perform(rng, m)
}

// perform changes what a model says of its performance.
func perform(rng *rand.Rand, m Model) Model {
	m.ServedObservations += rng.Uint64N(1000)
	for _, sum := range []*float64{
		&m.PrequentialBaselines.Mean, &m.PrequentialBaselines.Last, &m.ServedBaselines.Mean, &m.ServedBaselines.Last,
	} {
		if *sum += float64(rng.IntN(1000)) / 4; rng.IntN(20) == 0 || !known(*sum) {
			*sum = math.NaN() // For good: a sum that overflowed stays unknown.
		}
	}
	m.ServedRegret = maybe(rng)
	m.Recent = Recent{Observations: []uint64{512, 1024, 2048}[rng.IntN(3)], MeanLoss: math.Abs(maybe(rng)), Skill: recentSkill(rng)}
	if isClassifier(m) {
		m.PrequentialBaselines, m.ServedBaselines = unknown, unknown
		m.Recent.Skill = math.NaN()
	}
	if m.Recent.MeanLoss == 0 || !known(m.Recent.MeanLoss) {
		m.Recent.Skill = math.NaN()
	}
	m.PrequentialSkill = skill(m.PrequentialLoss, m.PrequentialBaselines.Mean, m.PrequentialBaselines.Last)
	m.ServedSkill = skill(m.ServedLoss, m.ServedBaselines.Mean, m.ServedBaselines.Last)
	rises := rng.Uint64N(2)
	m.Drift = Drift{
		Detected: m.Drift.Detected + rises + rng.Uint64N(2), Rises: m.Drift.Rises + rises, Sequence: rng.Uint64N(100), LossBefore: maybe(rng), LossAfter: maybe(rng),
	}
	m.Intervals = nil
	for range rng.IntN(12) {
		all := []float64{0.9, 0.99, 0.5, 0.95, 0.00001, 0.0001, 0.25, 0.125, 0.1, 0.2, 0.3, 0.4, math.NaN(), math.Inf(1)}
		m.Intervals = append(m.Intervals, Interval{
			Coverage: all[rng.IntN(len(all))], Judged: 900 + rng.Uint64N(200),
			Realised: maybe(rng), Recent: maybe(rng), MeanWidth: maybe(rng), MeanScore: maybe(rng),
		})
	}
	return performParts(rng, m)
}

var unknown = Baselines{Mean: math.NaN(), Last: math.NaN()}

// isClassifier says which models are classifiers, from their first scrape to their last.
func isClassifier(m Model) bool { return (len(m.Name)+len(m.Learner))%2 == 0 }

// recentSkill is a skill that underlying gives exactly.
func recentSkill(rng *rand.Rand) float64 {
	return []float64{0, 0.5, 0.75, -1, -3, math.NaN()}[rng.IntN(6)]
}

// maybe is a number that may not be known. Sums of such numbers are exact.
func maybe(rng *rand.Rand) float64 {
	if rng.IntN(5) == 0 {
		return []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[rng.IntN(3)]
	}
	return float64(rng.IntN(1000)-500) / 4
}

// ofModels are the series of models in a text, sorted.
func ofModels(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, `model="`) {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	slices.Sort(lines)
	return lines
}
