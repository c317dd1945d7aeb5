package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/client/internal/stream"
	"hindsight/cmd/internal/command"
)

func (e *env) predict() verb {
	p := &prediction{}
	return verb{
		use:   "predict [ID | --model ID] (--features X1,X2,... | --inputs JSON|@FILE | --csv FILE)",
		local: true,
		short: "Ask for a prediction",
		long: `Ask for a prediction. The server keeps the input under the prediction id until
observe sends the label. With --no-remember it keeps nothing.

A model with named inputs takes --inputs: null is a missing value.

--csv asks for a prediction of every row of a file and keeps nothing. It writes a line of
CSV for each row: the row, from 1; prediction, which is a class of a classifier, or
prediction1, prediction2, ... of several outputs; for each level of the intervals, such as
90 %, lower_90 and upper_90; probability, of the label 1 where labels are -1 and 1; for
each class probability_CLASS. A model with named inputs takes the columns of their names; other
columns are ignored. Of other models every column is a feature, in the order of the file,
unless it is a target: that of --target, or y, y1, y2 and so on.

With --local a new model learns the rows of --train, and is asked. The target is --target,
else y, else the last column of --train.

The rows of --csv follow one another, and the rows that the model has learned: row n is
predicted n-1 rows ahead. auto says less of the newest labels then, and has wider intervals.

The standard error is the mean's: intervals say where the label will lie.`,
		example: `  hindsight predict energy --features 0.1,-0.4,2 --prediction-id order-7
  hindsight predict trips --inputs '{"temperature": 21.5, "city": "Oslo", "rain": null}'
  hindsight predict trips --csv tomorrow.csv > predictions.csv
  hindsight predict --local --train trips.csv --csv tomorrow.csv`,
		optional: true,
		flags: func(f *flagSet) {
			p.flags.add(f)
			f.StringVar(&p.id, "prediction-id", "", "id of the prediction; one is drawn if it is empty")
			f.BoolVar(&p.noRemember, "no-remember", false, "store nothing: no label will follow")
			f.BoolVar(&p.explain, "explain", false, "also show what each family of auto's experts says")
			f.DurationVar(&p.ttl, "label-ttl", 0, "how long the server waits for the label")
			f.file(&p.csv, &p.options.Delimiter, &p.options.Target, "predict the rows of this file; - is standard input")
			f.StringVar(&p.train, "train", "", "with --local: the file whose rows the model learns first")
			f.BoolVar(&p.options.Classes, "classes", false, "with --train: the labels are classes, though they are numbers")
		},
		before: func(c *call) error {
			if err := p.check(c, e); err != nil {
				return err
			}
			return e.spooled(&p.csv, func() error {
				return e.spooled(&p.train, func() (err error) {
					if e.local.on {
						p.spec, p.rows, err = e.inferSpec(p.train, &p.options, c.given("target"), p.options.Classes)
					}
					if err != nil {
						return err
					}
					return e.withClient(c.ctx(), func(server *client.Client) error { return p.run(c, e, server) })
				})
			})
		},
	}
}

type prediction struct {
	flags               inputFlags
	id                  string
	noRemember, explain bool
	ttl                 time.Duration
	csv, train          string
	options             stream.FileOptions

	request hindsightv1.PredictRequest
	spec    *hindsightv1.ModelSpec // of the model to train
	rows    int                    // of --train
}

func (p *prediction) check(c *call, e *env) (err error) {
	if e.local.on != (p.train != "") {
		return command.Usagef("--local and --train need each other: without a server a model learns from a file first")
	}
	if e.local.on {
		if p.flags.model != "" {
			return command.Usagef("--local and --model exclude each other")
		}
		p.flags.model = localModel
	}
	p.request.Features, p.request.Inputs, err = p.flags.input(e, c.args)
	given := len(p.request.GetFeatures()) > 0 || p.request.GetInputs() != nil
	switch {
	case err != nil:
		return err
	case given && p.csv != "":
		return command.Usagef("--csv and another input exclude each other")
	case !given && p.csv == "":
		return command.Usagef("the input is missing: give numbers as --features, a record as --inputs, or a file as --csv")
	case p.csv != "" && (p.id != "" || p.explain || p.ttl != 0):
		return command.Usagef("--prediction-id, --explain and --label-ttl are not for --csv")
	case p.csv != "" && e.JSON():
		return command.Usagef("--csv writes CSV: leave out --json")
	}
	if !e.local.on && p.csv != "" && !c.given("target") {
		p.options.Target = "" // run looks for y.
	}
	return nil
}

func (p *prediction) run(c *call, e *env, server *client.Client) error {
	if p.spec != nil {
		if err := p.learn(c.ctx(), e, server); err != nil {
			return err
		}
	}
	m := server.Model(p.flags.model)
	if p.csv != "" {
		return p.predictFile(c.ctx(), e, m)
	}
	r := &p.request
	r.PredictionId, r.Explain = p.id, p.explain
	if c.given("label-ttl") {
		r.LabelTtl = durationpb.New(p.ttl)
	}
	if p.noRemember {
		r.Remember = new(bool)
	}
	return show(e, writePrediction)(m.Predict(c.ctx(), r))
}

func writePrediction(w *command.Page, p *hindsightv1.Prediction) {
	switch {
	case len(p.GetScores()) > 0 || p.GetClass() != "":
		writeScores(w, p)
	case len(p.GetValues()) > 0:
		w.Row("values", p.GetValues())
	default:
		w.Row("value", exact(p.GetValue()))
	}
	if len(p.GetParametricValues()) > 0 {
		w.Row("the parametric part alone", p.GetParametricValues())
	}
	command.Known(w, "the parametric part alone", p.ParametricValue)
	if len(p.GetStandardErrors()) > 0 {
		w.Row("standard errors of the means", p.GetStandardErrors())
	}
	command.Known(w, "standard error of the mean", p.StandardError)
	for _, i := range p.GetIntervals() {
		w.Row(level(i.GetCoverage())+" of labels lie in", interval(i))
	}
	if p.Probability != nil {
		w.Row("probability of the label 1", digits3(p.GetProbability()))
	}
	command.Known(w, "leverage", p.Leverage)
	w.Row("learned from", fmt.Sprintf("%d observations", p.GetStateSequence()))
	w.Text("prediction id", p.GetPredictionId())
	w.Text("model", p.GetModel())
	if len(p.GetExplanation()) > 0 {
		w.Printf("\nfamily\tweight\tcontribution\n")
		for _, f := range p.GetExplanation() {
			w.Cells(f.GetFamily(), perOutput(f.GetWeights(), "%.3f"), perOutput(f.GetContributions(), "%.6g"))
			for _, k := range f.GetKeys() {
				w.Cells("  of "+cell(k.GetInput()), "", perOutput(k.GetContributions(), "%.6g"))
			}
		}
	}
}

// maxScores is how many probabilities people are shown.
const maxScores = 20

func writeScores(w *command.Page, p *hindsightv1.Prediction) {
	w.Row("class", p.GetClass())
	classes := slices.SortedFunc(maps.Keys(p.GetScores()), func(a, b string) int {
		return cmp.Or(cmp.Compare(p.GetScores()[b], p.GetScores()[a]), cmp.Compare(a, b))
	})
	for _, class := range classes[:min(len(classes), maxScores)] {
		w.Row("probability of "+class, digits3(p.GetScores()[class]))
	}
	if more := len(classes) - maxScores; more > 0 {
		w.Row("less probable", fmt.Sprintf("%d more classes", more))
	}
}

func interval(i *hindsightv1.Interval) string {
	one := func(lower, upper float64) string {
		return fmt.Sprintf("[%.6g, %.6g]", lower, upper)
	}
	if len(i.GetLowers()) == 0 || len(i.GetLowers()) != len(i.GetUppers()) {
		return one(i.GetLower(), i.GetUpper())
	}
	all := make([]string, len(i.GetLowers()))
	for j, lower := range i.GetLowers() {
		all[j] = one(lower, i.GetUppers()[j])
	}
	return strings.Join(all, " ")
}
