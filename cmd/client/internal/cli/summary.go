package cli

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/client/internal/drive"
)

// finite is a number that JSON shows as null when it is not finite.
type finite float64

// MarshalJSON implements json.Marshaler.
func (f finite) MarshalJSON() ([]byte, error) {
	if v := float64(f); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// summary is the account of a stream that was taken through a model. What the
// server did not get to say is null.
type summary struct {
	Model             string    `json:"model"`
	Run               string    `json:"run"`
	Rounds            int       `json:"rounds"`
	Acknowledged      int       `json:"acknowledged"`
	NextOffset        int       `json:"nextOffset"`
	Duplicates        int       `json:"duplicates"`
	Retries           int       `json:"retries"`
	MeanLoss          finite    `json:"meanLoss"`
	LossSum           finite    `json:"lossSum"`
	Observations      *uint64   `json:"observations"`
	Regret            finite    `json:"regret"`
	RegretBound       *finite   `json:"regretBound"`
	Certificate       *finite   `json:"certificate"`
	CertificateOK     *bool     `json:"certificateOk"`
	ElapsedSeconds    finite    `json:"elapsedSeconds"`
	RoundsPerSecond   finite    `json:"roundsPerSecond"`
	PredictP50Seconds finite    `json:"predictP50Seconds"`
	PredictP99Seconds finite    `json:"predictP99Seconds"`
	ObserveP50Seconds finite    `json:"observeP50Seconds"`
	ObserveP99Seconds finite    `json:"observeP99Seconds"`
	Features          *int32    `json:"features"`
	StateDigest       *string   `json:"stateDigest"`
	Baselines         baselines `json:"baselines"`
	Error             *failure  `json:"error,omitempty"`
}

// baselines are the mean losses of predictors that ignore the inputs: of the
// running mean of the labels, and of the last label.
type baselines struct {
	MeanLoss      finite `json:"meanLoss"`
	LastLabelLoss finite `json:"lastLabelLoss"`
}

// newSummary returns the account as the client has kept it.
func newSummary(model, run string, r *drive.Result) *summary {
	seconds := func(d time.Duration) finite { return finite(d.Seconds()) }
	return &summary{
		Model: model, Run: run,
		Rounds: r.Rounds, Acknowledged: r.Acknowledged, NextOffset: r.NextOffset,
		Duplicates: r.Duplicates, Retries: r.Retries,
		MeanLoss: finite(r.MeanLoss()), LossSum: finite(r.LossSum), Regret: finite(r.Regret),
		ElapsedSeconds: seconds(r.Elapsed), RoundsPerSecond: finite(r.RoundsPerSecond()),
		PredictP50Seconds: seconds(r.Predict.Quantile(0.5)), PredictP99Seconds: seconds(r.Predict.Quantile(0.99)),
		ObserveP50Seconds: seconds(r.Observe.Quantile(0.5)), ObserveP99Seconds: seconds(r.Observe.Quantile(0.99)),
		Baselines: baselines{MeanLoss: finite(r.RunningMean.MeanLoss()), LastLabelLoss: finite(r.LastLabel.MeanLoss())},
	}
}

// take adds what the server says of the model.
func (s *summary) take(stats *hindsightv1.ModelStats) {
	observations, features := stats.GetObservations(), stats.GetFeatures()
	bound, certificate := finite(stats.GetRegretBound()), finite(stats.GetCertificate())
	ok, digest := stats.GetCertificateOk(), stats.GetStateDigest()
	s.Observations, s.Features = &observations, &features
	if stats.GetCertified() {
		s.RegretBound, s.Certificate = &bound, &certificate
	}
	s.CertificateOK, s.StateDigest = &ok, &digest
	s.Regret = finite(math.NaN())
	if stats.Regret != nil {
		s.Regret = finite(stats.GetRegret())
	}
}

// write writes the account for people.
func (s *summary) write(w *page) {
	line := w.row
	float := func(name string, value finite) { w.float(name, float64(value)) }
	line("model", s.Model)
	line("run", s.Run)
	line("rounds", s.Rounds)
	if s.Acknowledged != s.Rounds || s.Error != nil {
		line("acknowledged", s.Acknowledged)
		line("next offset", s.NextOffset)
	}
	if s.Duplicates > 0 {
		line("learned before", s.Duplicates)
	}
	if s.Retries > 0 {
		line("calls retried", s.Retries)
	}
	float("mean loss", s.MeanLoss)
	float("  of the running mean", s.Baselines.MeanLoss)
	float("  of the last label", s.Baselines.LastLabelLoss)
	float("loss sum", s.LossSum)
	if !math.IsNaN(float64(s.Regret)) {
		float("regret", s.Regret)
	}
	if s.RegretBound != nil {
		float("guarantee", *s.RegretBound)
		float("certificate", *s.Certificate)
		line("certificate ok", yesNo(*s.CertificateOK))
	}
	line("rounds/s", strconv.FormatFloat(float64(s.RoundsPerSecond), 'f', 1, 64))
	line("predict p50 / p99", latency(s.PredictP50Seconds)+" / "+latency(s.PredictP99Seconds))
	line("observe p50 / p99", latency(s.ObserveP50Seconds)+" / "+latency(s.ObserveP99Seconds))
	if s.Features != nil {
		line("features", *s.Features)
		line("state digest", *s.StateDigest)
	}
}

// latency writes a duration with three digits.
func latency(s finite) string {
	d := time.Duration(float64(s) * float64(time.Second))
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	default:
		return d.Round(100 * time.Nanosecond).String()
	}
}
