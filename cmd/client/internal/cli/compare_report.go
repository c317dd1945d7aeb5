package cli

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/client/internal/drive"
	"hindsight/cmd/internal/command"
	"hindsight/internal/engine/account/confidence"
)

// contestant is how a learner did on the rows of a file. The errors are over all rows with a
// label. Where labels are late they are of served predictions, else of prequential predictions,
// which are the same.
type contestant struct {
	Learner string `json:"learner"`
	// Of labels that are numbers.
	RMSE *float64 `json:"rmse,omitempty"`
	MAE  *float64 `json:"mae,omitempty"`
	// Of classes.
	Accuracy *float64 `json:"accuracy,omitempty"`
	LogLoss  *float64 `json:"logLoss,omitempty"`
	AUC      *float64 `json:"auc,omitempty"`
	Skill    *float64 `json:"skill,omitempty"`
	// The share of labels inside of the intervals of Level, over all outputs.
	Coverage      *float64 `json:"coverage,omitempty"`
	Level         *float64 `json:"level,omitempty"`
	SecondsPerRow float64  `json:"secondsPerRow"`

	delay    int
	losses   []float64 // Of each label but the first: the squared error, the mean over outputs; of a class 0 or 1.
	absolute float64   // The sum of the absolute errors, the mean over outputs.
	rounds   []int     // The row of each label, from 1.
	labels   [][]float64
	classes  []string
}

func (a *contestant) mean() float64 {
	var sum float64
	for _, loss := range a.losses {
		sum += loss
	}
	return sum / float64(len(a.losses))
}

// add adds an observation. All learners answer the first before any label, so that its loss says nothing of them.
func (a *contestant) add(o drive.Observed) {
	class, value, values := o.Outcome.GetClass(), o.Outcome.GetPrediction(), o.Outcome.GetPredictions()
	if a.delay > 0 {
		class, value, values = o.Outcome.GetServedClass(), o.Outcome.GetServedPrediction(), o.Outcome.GetServedPredictions()
	}
	if len(values) == 0 {
		values = []float64{value}
	}
	a.rounds = append(a.rounds, o.T)
	a.classes = append(a.classes, o.Class)
	a.labels = append(a.labels, o.Labels)
	if len(a.rounds) == 1 {
		return
	}
	if o.Class != "" {
		a.losses = append(a.losses, unequal(class, o.Class))
		return
	}
	a.losses = append(a.losses, squaredError(values, o.Labels))
	for i, y := range o.Labels {
		a.absolute += math.Abs(values[i]-y) / float64(len(values))
	}
}

func unequal(a, b string) float64 {
	if a == b {
		return 0
	}
	return 1
}

func squaredError(predicted, labels []float64) float64 {
	var sum float64
	for i, y := range labels {
		sum += (predicted[i] - y) * (predicted[i] - y)
	}
	return sum / float64(len(labels))
}

// finish computes the figures. At least two rows have a label.
func (a *contestant) finish(result *drive.Result, stats *hindsightv1.ModelStats) {
	if result.Rounds > 0 {
		a.SecondsPerRow = result.Elapsed.Seconds() / float64(result.Rounds)
	}
	n := float64(len(a.losses))
	if a.classes[0] != "" {
		a.Accuracy = new(1 - a.mean())
		figures := stats.GetClasses().GetPerformance().GetPrequential()
		if a.delay > 0 {
			figures = stats.GetClasses().GetPerformance().GetServed()
		}
		if figures != nil {
			a.LogLoss = new(figures.GetLogLoss())
		}
		if r := stats.GetClasses().GetRanking(); r != nil {
			a.AUC = new(r.GetAuc())
		}
	} else {
		a.RMSE, a.MAE = new(math.Sqrt(a.mean())), new(a.absolute/n)
	}
	if trivial := a.baseline(); trivial > 0 {
		a.Skill = new(1 - a.mean()*n/trivial)
	}
	var inside, intervals float64
	for _, i := range stats.GetIntervals() {
		if i.Realised != nil && i.GetCoverage() == stats.GetIntervals()[0].GetCoverage() {
			inside += i.GetRealised() * float64(i.GetObservations())
			intervals += float64(i.GetObservations())
		}
	}
	if intervals > 0 {
		a.Coverage, a.Level = new(inside/intervals), new(stats.GetIntervals()[0].GetCoverage())
	}
}

// baseline is the smaller sum of the losses of two predictors that ignore the inputs: the running
// mean of the labels, or the most frequent class; and the last label. They know the labels that a
// prediction knew: the labels of all rows more than delay rows before. Without a label they predict
// 0. The first row does not count. The server's skill leaves out what a label gate sets aside, so that learners with and
// without a gate would be compared on different rows.
func (a *contestant) baseline() float64 {
	var steady, last float64
	count, frequent := make(map[string]int), ""
	means, latest, latestClass := make([]float64, len(a.labels[0])), make([]float64, len(a.labels[0])), ""
	known := 0
	for i, t := range a.rounds {
		for ; known < i && a.rounds[known]+a.delay < t; known++ {
			latest, latestClass = a.labels[known], a.classes[known]
			for j, y := range latest {
				means[j] += (y - means[j]) / float64(known+1)
			}
			if count[latestClass]++; count[latestClass] > count[frequent] {
				frequent = latestClass
			}
		}
		if i == 0 {
			continue
		}
		if a.classes[i] != "" {
			steady += unequal(frequent, a.classes[i])
			last += unequal(latestClass, a.classes[i])
			continue
		}
		steady += squaredError(means, a.labels[i])
		last += squaredError(latest, a.labels[i])
	}
	return min(steady, last)
}

type report struct {
	File     string        `json:"file"`
	Target   string        `json:"target"`
	Delay    int           `json:"delay"`
	Labels   int           `json:"labels"` // rows with a label
	Learners []*contestant `json:"learners"`
	Winner   *winner       `json:"winner,omitempty"`

	classes bool
}

// winner compares the two best learners.
type winner struct {
	Learner string `json:"learner"`
	Second  string `json:"second"`
	Loss    string `json:"loss"` // squared error, or error rate
	// Of the loss of the second learner minus the loss of the winner, on the same row: the mean, its
	// share of the loss of the second, and the interval of the confidence sequence.
	Difference float64         `json:"difference"`
	Share      *command.Finite `json:"share,omitempty"`
	Low        *float64        `json:"low,omitempty"`
	High       *float64        `json:"high,omitempty"`
	Confidence float64         `json:"confidence"`
	// Certain: the interval does not contain 0.
	Certain bool `json:"certain"`
}

// conclude puts the best learner first and compares it with the second.
func (r *report) conclude() {
	r.Labels = len(r.Learners[0].rounds)
	slices.SortStableFunc(r.Learners, func(a, b *contestant) int { return cmp.Compare(a.mean(), b.mean()) })
	if len(r.Learners) < 2 {
		return
	}
	best, second := r.Learners[0], r.Learners[1]
	var differences confidence.Moments
	for i, loss := range second.losses {
		differences.Add(loss - best.losses[i])
	}
	r.Winner = &winner{
		Learner: best.Learner, Second: second.Learner, Loss: "squared error", Difference: differences.Mean(), Confidence: confidence.Level,
	}
	if r.classes {
		r.Winner.Loss = "error rate"
	}
	if m := second.mean(); m > 0 {
		r.Winner.Share = new(command.Finite(r.Winner.Difference / m))
	}
	if i, ok := confidence.Paired(differences); ok {
		r.Winner.Low, r.Winner.High, r.Winner.Certain = &i.Lower, &i.Upper, i.Lower > 0
	}
}

func (r *report) write(w *command.Page) {
	w.Printf("%s, label %s, %s with a label", r.File, r.Target, command.Count(r.Labels, "row"))
	if r.Delay > 0 {
		w.Printf(", observed %s late", command.Count(r.Delay, "row"))
	}
	w.Printf("\n\n")
	header := []string{"learner", "RMSE", "MAE", "skill", "inside", "time_a_row"}
	if r.classes {
		header = []string{"learner", "accuracy", "log_loss", "AUC", "skill", "time_a_row"}
	} else if l := r.Learners[0].Level; l != nil {
		header[4] = "inside_" + strings.ReplaceAll(level(*l), " ", "_")
	}
	rows := make([][]any, len(r.Learners))
	for i, a := range r.Learners {
		row := []any{a.Learner, command.Optional(a.RMSE, digits4), command.Optional(a.MAE, digits4)}
		if r.classes {
			row = []any{a.Learner, command.Optional(a.Accuracy, percent), command.Optional(a.LogLoss, digits4), command.Optional(a.AUC, digits4)}
		}
		row = append(row, command.Optional(a.Skill, digits3))
		if !r.classes {
			row = append(row, command.Optional(a.Coverage, percent))
		}
		rows[i] = append(row, latency(command.Finite(a.SecondsPerRow)))
	}
	w.Rows(header, rows)
	if r.Winner != nil {
		w.Printf("\n%s\n", r.Winner)
	}
}

func digits4(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// String says who wins, by how much, and how certainly.
func (v *winner) String() string {
	share := ""
	if v.Share != nil {
		share = fmt.Sprintf(", %s less", percent(float64(*v.Share)))
	}
	unit := digits4
	if v.Loss != "squared error" {
		unit = func(v float64) string { return strconv.FormatFloat(100*v, 'f', 2, 64) + " percentage points" }
	}
	if v.Difference == 0 {
		return fmt.Sprintf("No learner wins: the %s of %s and %s is the same.", v.Loss, v.Learner, v.Second)
	}
	verb := "is ahead"
	if v.Certain {
		verb = "wins"
	}
	first := fmt.Sprintf("%s %s: its %s is %s below that of %s%s.\n", v.Learner, verb, v.Loss, unit(v.Difference), v.Second, share)
	if v.Low == nil {
		return first + "Too few rows differ for a confidence interval."
	}
	says := "contains 0: these rows do not tell which is better"
	if v.Certain {
		says = "excludes 0"
	}
	return first + fmt.Sprintf("%s confidence interval of the difference: %s to %s, which %s.", level(v.Confidence), unit(*v.Low), unit(*v.High), says)
}
