package cli

import (
	"encoding/json"
	"fmt"
	"time"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/client/internal/drive"
	"hindsight/cmd/internal/command"
)

// summary is the account of a stream that was taken through a model. What the
// server did not answer is absent.
type summary struct {
	Model           string           `json:"model"`
	Run             string           `json:"run"`
	Rounds          int              `json:"rounds"`
	Acknowledged    int              `json:"acknowledged"`
	Unlabelled      int              `json:"unlabelled,omitempty"`
	NextOffset      int              `json:"nextOffset"`
	Delay           int              `json:"delay"`
	Duplicates      int              `json:"duplicates"`
	SetAside        int              `json:"setAside"`
	Retries         int              `json:"retries"`
	LossSum         command.Finite   `json:"lossSum"`
	Unfinished      bool             `json:"unfinished"`
	ElapsedSeconds  command.Finite   `json:"elapsedSeconds"`
	RoundsPerSecond command.Finite   `json:"roundsPerSecond"`
	Batches         int              `json:"batches,omitempty"`
	Stats           json.RawMessage  `json:"stats,omitempty"`
	Error           *command.Failure `json:"error,omitempty"`

	stats *hindsightv1.ModelStats
	// Of an unfinished run: how far it came, and how it goes on, if it can.
	progress, remedy string
}

func newSummary(r *rounds, result *drive.Result) *summary {
	seconds := func(d time.Duration) command.Finite { return command.Finite(d.Seconds()) }
	return &summary{
		Model: r.model, Run: r.run, Delay: r.delay,
		Rounds: result.Rounds, Acknowledged: result.Acknowledged, Unlabelled: result.Unlabelled, NextOffset: result.NextOffset,
		Duplicates: result.Duplicates, SetAside: result.SetAside, Retries: result.Retries,
		LossSum:        command.Finite(result.LossSum),
		ElapsedSeconds: seconds(result.Elapsed), RoundsPerSecond: command.Finite(result.RoundsPerSecond()),
		Batches: result.Batches,
	}
}

func (s *summary) unfinished(r *rounds, result *drive.Result) {
	s.Unfinished = true
	s.progress = fmt.Sprintf("%d observations acknowledged", s.Acknowledged)
	if r.total > 0 {
		s.progress = fmt.Sprintf("%d of %d observations acknowledged", s.Acknowledged, r.total)
	}
	if !r.once {
		s.remedy = fmt.Sprintf("continue with --run %s --offset %d", s.Run, result.NextOffset)
	}
}

func (s *summary) take(stats *hindsightv1.ModelStats) error {
	raw, err := encode(stats)
	if err != nil {
		return err
	}
	s.stats, s.Stats = stats, raw
	return nil
}

func (s *summary) write(w *command.Page) {
	if s.Unfinished {
		w.Row("UNFINISHED", s.progress)
		w.Text("", s.remedy)
	}
	w.Row("model", s.Model)
	w.Row("run", s.Run)
	w.Row("rounds", command.Number(float64(s.Rounds)))
	if s.Unlabelled > 0 {
		w.Row("without a label", s.Unlabelled)
	}
	if s.Acknowledged+s.Unlabelled != s.Rounds || s.Error != nil {
		w.Row("acknowledged", s.Acknowledged)
		w.Row("next offset", s.NextOffset)
	}
	if s.Delay > 0 {
		w.Row("labels late by", fmt.Sprintf("%d rounds", s.Delay))
	}
	if s.Duplicates > 0 {
		w.Row("learned before", s.Duplicates)
	}
	if s.SetAside > 0 {
		w.Row("labels set aside", setAside(uint64(s.SetAside), float64(s.SetAside)/float64(s.Acknowledged)))
	}
	if s.Retries > 0 {
		w.Row("calls retried", s.Retries)
	}
	w.Row("rounds/s", command.Number(float64(s.RoundsPerSecond)))
	writeQuality(w, s.stats)
}

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
