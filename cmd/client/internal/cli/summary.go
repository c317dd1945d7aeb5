package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/client/internal/document"
	"hindsight/cmd/client/internal/drive"
	"hindsight/cmd/internal/command"
)

// summary is the account of a stream that was taken through a model. What the
// server did not answer is absent.
type summary struct {
	Model             string           `json:"model"`
	Run               string           `json:"run"`
	Rounds            int              `json:"rounds"`
	Acknowledged      int              `json:"acknowledged"`
	Unlabelled        int              `json:"unlabelled,omitempty"`
	NextOffset        int              `json:"nextOffset"`
	Delay             int              `json:"delay"`
	Duplicates        int              `json:"duplicates"`
	SetAside          int              `json:"setAside"`
	Retries           int              `json:"retries"`
	MeanLoss          command.Finite   `json:"meanLoss"`
	LossSum           command.Finite   `json:"lossSum"`
	ErrorRate         *command.Finite  `json:"errorRate,omitempty"`
	ServedRounds      int              `json:"servedRounds"`
	ServedMeanLoss    *command.Finite  `json:"servedMeanLoss,omitempty"`
	Unfinished        bool             `json:"unfinished"`
	ElapsedSeconds    command.Finite   `json:"elapsedSeconds"`
	RoundsPerSecond   command.Finite   `json:"roundsPerSecond"`
	LateBy            int              `json:"lateBy,omitempty"`
	Batches           int              `json:"batches,omitempty"`
	PredictP50Seconds *command.Finite  `json:"predictP50Seconds,omitempty"`
	PredictP99Seconds *command.Finite  `json:"predictP99Seconds,omitempty"`
	ObserveP50Seconds command.Finite   `json:"observeP50Seconds"`
	ObserveP99Seconds command.Finite   `json:"observeP99Seconds"`
	Skill             *command.Finite  `json:"skill,omitempty"`
	Verdict           string           `json:"verdict,omitempty"`
	ServedSkill       *command.Finite  `json:"servedSkill,omitempty"`
	ServedVerdict     string           `json:"servedVerdict,omitempty"`
	Stats             json.RawMessage  `json:"stats,omitempty"`
	Error             *command.Failure `json:"error,omitempty"`

	stats *hindsightv1.ModelStats
	// Of an unfinished run: how far it came, and how it goes on, if it can.
	progress, remedy string
}

// newSummary returns the account that the client kept.
func newSummary(r *rounds, result *drive.Result) *summary {
	seconds := func(d time.Duration) command.Finite { return command.Finite(d.Seconds()) }
	quantile := func(l drive.Latency, q float64) *command.Finite {
		if r.batches {
			return nil // Nothing was predicted.
		}
		v := seconds(l.Quantile(q))
		return &v
	}
	s := &summary{
		Model: r.model, Run: r.run, Delay: r.delay,
		Rounds: result.Rounds, Acknowledged: result.Acknowledged, Unlabelled: result.Unlabelled, NextOffset: result.NextOffset,
		Duplicates: result.Duplicates, SetAside: result.SetAside, Retries: result.Retries, ServedRounds: result.Served,
		MeanLoss: command.Finite(result.MeanLoss()), LossSum: command.Finite(result.LossSum),
		ElapsedSeconds: seconds(result.Elapsed), RoundsPerSecond: command.Finite(result.RoundsPerSecond()),
		Batches: result.Batches, PredictP50Seconds: quantile(result.Predict, 0.5), PredictP99Seconds: quantile(result.Predict, 0.99),
		ObserveP50Seconds: seconds(result.Observe.Quantile(0.5)), ObserveP99Seconds: seconds(result.Observe.Quantile(0.99)),
	}
	if r.delay == 0 && !r.timed {
		s.LateBy = result.Behind
	}
	if result.Classes > 0 {
		rate := command.Finite(float64(result.Errors) / float64(result.Classes))
		s.ErrorRate = &rate
	}
	if result.Served > 0 {
		mean := command.Finite(result.ServedLossSum / float64(result.Served))
		s.ServedMeanLoss = &mean
	}
	return s
}

// unfinished says how far a run came, and how it goes on.
func (s *summary) unfinished(r *rounds, result *drive.Result) {
	s.Unfinished = true
	s.progress = fmt.Sprintf("%d observations acknowledged", s.Acknowledged)
	if r.total > 0 {
		s.progress = fmt.Sprintf("%d of %d observations acknowledged", s.Acknowledged, r.total)
	}
	switch {
	case r.once:
	case r.offsets:
		s.remedy = fmt.Sprintf("continue with --run %s --offset %d", s.Run, result.NextOffset)
	default:
		s.remedy = "continue with --run " + s.Run
	}
}

// take adds the statistics that the server answered.
func (s *summary) take(stats *hindsightv1.ModelStats) error {
	raw, err := document.Encode(stats)
	if err != nil {
		return err
	}
	s.stats, s.Stats = stats, raw
	own, told := skills(stats)
	s.Skill, s.Verdict = judged(own)
	if stats.GetServedObservations() > 0 {
		s.ServedSkill, s.ServedVerdict = judged(told)
	}
	return nil
}

// skills are those of the prequential predictions and of what was served, of a
// classifier by its errors. They are nil if they are not known.
func skills(s *hindsightv1.ModelStats) (prequential, served *float64) {
	if c := s.GetClasses().GetPerformance(); c.GetPrequential() != nil {
		return c.GetPrequential().Skill, c.GetServed().Skill
	}
	if p := s.GetPerformance(); p.GetPrequential() != nil {
		return p.GetPrequential().Skill, p.GetServed().Skill
	}
	return nil, nil
}

// judged returns a skill and its verdict, nothing if it is not known.
func judged(known *float64) (*command.Finite, string) {
	if known == nil {
		return nil, ""
	}
	skill := command.Finite(*known)
	return &skill, verdict(*known)
}

// write writes the account for people.
func (s *summary) write(w *command.Page) {
	line := w.Row
	if s.Unfinished {
		line("UNFINISHED", s.progress)
		if s.remedy != "" {
			line("", s.remedy)
		}
	}
	line("model", s.Model)
	line("run", s.Run)
	line("rounds", s.Rounds)
	if s.Unlabelled > 0 {
		line("without a label", s.Unlabelled)
	}
	if s.Acknowledged+s.Unlabelled != s.Rounds || s.Error != nil {
		line("acknowledged", s.Acknowledged)
		line("next offset", s.NextOffset)
	}
	if s.Delay > 0 {
		line("labels late by", fmt.Sprintf("%d rounds", s.Delay))
	}
	if s.LateBy > 0 {
		late := fmt.Sprintf("up to %d rounds, by --pipeline", s.LateBy)
		if s.stats.GetLearner() == "auto" {
			late += ": auto, which learns from what it served, learned otherwise than in turn"
		}
		line("labels late by", late)
	}
	if s.Duplicates > 0 {
		line("learned before", s.Duplicates)
	}
	if s.SetAside > 0 {
		line("labels set aside", setAside(uint64(s.SetAside), float64(s.SetAside)/float64(s.Acknowledged)))
	}
	if s.Retries > 0 {
		line("calls retried", s.Retries)
	}
	if s.ErrorRate != nil {
		line("error rate, prequential", rate(float64(*s.ErrorRate)))
	} else {
		w.Float("mean loss, prequential", float64(s.MeanLoss))
	}
	w.Float("loss sum, prequential", float64(s.LossSum))
	if s.ServedMeanLoss != nil && s.ErrorRate == nil {
		w.Float("mean loss, served", float64(*s.ServedMeanLoss))
	}
	if s.stats != nil {
		writeRegret(w, s.stats)
	}
	line("rounds/s", strconv.FormatFloat(float64(s.RoundsPerSecond), 'f', 1, 64))
	name := "batch p50 / p99"
	if s.PredictP50Seconds != nil {
		name = "observe p50 / p99"
		line("predict p50 / p99", latency(*s.PredictP50Seconds)+" / "+latency(*s.PredictP99Seconds))
	}
	line(name, latency(s.ObserveP50Seconds)+" / "+latency(s.ObserveP99Seconds))
	if s.stats == nil {
		return
	}
	line("learner", s.stats.GetLearner())
	line("features", s.stats.GetFeatures())
	line("state digest", s.stats.GetStateDigest())
	writePerformance(w, s.stats)
	writeIntervals(w, s.stats)
	writeDrift(w, s.stats)
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
