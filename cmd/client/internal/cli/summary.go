package cli

import (
	"math"
	"strconv"
	"time"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/client/internal/drive"
	"hindsight/cmd/internal/command"
)

// summary is the account of a stream that was taken through a model. Fields that
// the server did not answer are null.
type summary struct {
	Model             string           `json:"model"`
	Run               string           `json:"run"`
	Rounds            int              `json:"rounds"`
	Acknowledged      int              `json:"acknowledged"`
	NextOffset        int              `json:"nextOffset"`
	Duplicates        int              `json:"duplicates"`
	Retries           int              `json:"retries"`
	MeanLoss          command.Finite   `json:"meanLoss"`
	LossSum           command.Finite   `json:"lossSum"`
	Observations      *uint64          `json:"observations"`
	Regret            command.Finite   `json:"regret"`
	RegretBound       *command.Finite  `json:"regretBound"`
	Certificate       *command.Finite  `json:"certificate"`
	CertificateOK     *bool            `json:"certificateOk"`
	ElapsedSeconds    command.Finite   `json:"elapsedSeconds"`
	RoundsPerSecond   command.Finite   `json:"roundsPerSecond"`
	PredictP50Seconds command.Finite   `json:"predictP50Seconds"`
	PredictP99Seconds command.Finite   `json:"predictP99Seconds"`
	ObserveP50Seconds command.Finite   `json:"observeP50Seconds"`
	ObserveP99Seconds command.Finite   `json:"observeP99Seconds"`
	Features          *int32           `json:"features"`
	StateDigest       *string          `json:"stateDigest"`
	Baselines         baselines        `json:"baselines"`
	Error             *command.Failure `json:"error,omitempty"`
}

// baselines are the mean losses of two predictors that ignore the inputs: the
// running mean of the labels, and the last label.
type baselines struct {
	MeanLoss      command.Finite `json:"meanLoss"`
	LastLabelLoss command.Finite `json:"lastLabelLoss"`
}

// newSummary returns the account that the client kept.
func newSummary(model, run string, r *drive.Result) *summary {
	seconds := func(d time.Duration) command.Finite { return command.Finite(d.Seconds()) }
	return &summary{
		Model: model, Run: run,
		Rounds: r.Rounds, Acknowledged: r.Acknowledged, NextOffset: r.NextOffset,
		Duplicates: r.Duplicates, Retries: r.Retries,
		MeanLoss: command.Finite(r.MeanLoss()), LossSum: command.Finite(r.LossSum), Regret: command.Finite(r.Regret),
		ElapsedSeconds: seconds(r.Elapsed), RoundsPerSecond: command.Finite(r.RoundsPerSecond()),
		PredictP50Seconds: seconds(r.Predict.Quantile(0.5)), PredictP99Seconds: seconds(r.Predict.Quantile(0.99)),
		ObserveP50Seconds: seconds(r.Observe.Quantile(0.5)), ObserveP99Seconds: seconds(r.Observe.Quantile(0.99)),
		Baselines: baselines{MeanLoss: command.Finite(r.RunningMean.MeanLoss()), LastLabelLoss: command.Finite(r.LastLabel.MeanLoss())},
	}
}

// take adds the statistics that the server answered.
func (s *summary) take(stats *hindsightv1.ModelStats) {
	observations, features := stats.GetObservations(), stats.GetFeatures()
	bound, certificate := command.Finite(stats.GetRegretBound()), command.Finite(stats.GetCertificate())
	ok, digest := stats.GetCertificateOk(), stats.GetStateDigest()
	s.Observations, s.Features = &observations, &features
	if stats.GetCertified() {
		s.RegretBound, s.Certificate = &bound, &certificate
	}
	s.CertificateOK, s.StateDigest = &ok, &digest
	s.Regret = command.Finite(math.NaN())
	if stats.Regret != nil {
		s.Regret = command.Finite(stats.GetRegret())
	}
}

// write writes the account for people.
func (s *summary) write(w *command.Page) {
	line := w.Row
	float := func(name string, value command.Finite) { w.Float(name, float64(value)) }
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
func latency(s command.Finite) string {
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
