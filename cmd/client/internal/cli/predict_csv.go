package cli

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/client/internal/drive"
	"hindsight/cmd/client/internal/stream"
	"hindsight/cmd/internal/command"
	"hindsight/internal/infer"
)

const predictedRows = 256

func (p *prediction) learn(ctx context.Context, e *env, c *client.Client) (err error) {
	if err := p.checkRows(); err != nil {
		return err
	}
	if err := startModel(ctx, c, localModel, p.spec, 0, 1); err != nil {
		return err
	}
	source, _, err := (&replay{csv: p.train, options: p.options}).open(p.spec)
	if err != nil {
		return &command.UsageError{Err: err}
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	bar := newProgress(e.Stderr, "train", p.rows)
	result, err := drive.Run(ctx, c, localModel, source, drive.Options{
		Run: "train", Batches: true,
		OnObserved: func(drive.Observed) error { bar.step(); return nil },
	})
	bar.end()
	if err != nil {
		return fmt.Errorf("--train: %w", err)
	}
	e.Say("learned %s of --train", command.Count(result.Acknowledged, "row"))
	return nil
}

func (p *prediction) checkRows() (err error) {
	if p.csv == "" {
		return nil
	}
	source, _, err := p.unlabelled(p.spec)
	if err != nil {
		return &command.UsageError{Err: err}
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	for asked := 0; ; asked++ {
		switch _, err := source.Next(); {
		case errors.Is(err, io.EOF) && asked == 0:
			return &command.UsageError{Err: stream.NoRow(p.csv)}
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return &command.UsageError{Err: err}
		}
	}
}

func (p *prediction) predictFile(ctx context.Context, e *env, m *client.Model) error {
	described, err := m.Get(ctx)
	if err != nil {
		return err
	}
	source, noticed, err := p.unlabelled(described.GetSpec())
	if err != nil {
		return &command.UsageError{Err: err}
	}
	rows := 0
	write := func(to io.Writer) (err error) {
		if rows, err = predictRows(ctx, m, source, to); err == nil && rows == 0 {
			err = &command.UsageError{Err: stream.NoRow(p.csv)}
		}
		e.notice(noticed, source.Notes(), &p.options)
		return err
	}
	if p.out == "" {
		return errors.Join(write(e.Stdout), source.Close())
	}
	if err := errors.Join(replaceFile(p.out, write), source.Close()); err != nil {
		return err
	}
	written := struct {
		Model string `json:"model"`
		File  string `json:"file"`
		Rows  int    `json:"rows"`
	}{m.ID(), p.out, rows}
	return e.emit(written, func(w *command.Page) { w.Printf("predicted %s into %s\n", command.Count(rows, "row"), p.out) })
}

// unlabelled opens the file of --csv, whose labels are left out. It returns the columns that a user should read about too.
func (p *prediction) unlabelled(spec *hindsightv1.ModelSpec) (rows, []*infer.Column, error) {
	o := p.options
	if len(spec.GetInputs()) > 0 {
		o.Target, o.Ignore = "", []string{stream.AllOthers}
	} else if o.Target == "" {
		target, err := stream.LikelyTarget(p.csv, o.Delimiter)
		if err != nil {
			return nil, nil, err
		}
		if target == "y" {
			o.Target = target
		}
	}
	r := replay{csv: p.csv, options: o}
	source, dimension, err := r.open(spec)
	if err == nil && dimension > 0 && dimension != int(spec.GetDimension()) {
		err = errors.Join(fmt.Errorf("%s: %d features, want the %d of the model; --target names a column that is none",
			p.csv, dimension, spec.GetDimension()), source.Close())
	}
	return source, r.leftOut, err
}

// predictRows writes a line of CSV for each row, and returns how many rows there are. The columns
// are the columns of the first prediction.
func predictRows(ctx context.Context, m *client.Model, source rows, to io.Writer) (n int, err error) {
	out := csv.NewWriter(to)
	var columns *predictionColumns
	for end := false; !end; {
		batch, rows := &hindsightv1.PredictBatchRequest{Remember: new(bool), Horizon: uint32(n)}, 0
		for rows < predictedRows && !end {
			round, err := source.Next()
			switch {
			case errors.Is(err, io.EOF):
				end = true
			case err != nil:
				return n, err
			case round.Inputs != nil:
				batch.Inputs = append(batch.Inputs, round.Inputs)
				rows++
			default:
				batch.Rows = append(batch.Rows, &hindsightv1.Row{Features: round.Features})
				rows++
			}
		}
		if rows == 0 {
			break
		}
		predictions, err := m.PredictBatch(ctx, batch)
		if err != nil {
			return n, fmt.Errorf("rows %d to %d: %w", n+1, n+rows, err)
		}
		for _, p := range predictions {
			if columns == nil {
				columns = newPredictionColumns(p)
				_ = out.Write(columns.header()) // The writer keeps its error.
			}
			n++
			_ = out.Write(append([]string{strconv.Itoa(n)}, columns.fields(p)...))
		}
	}
	out.Flush()
	return n, out.Error()
}

type predictionColumns struct {
	outputs     int
	levels      []float64
	probability bool
	classes     []string
}

func newPredictionColumns(p *hindsightv1.Prediction) *predictionColumns {
	c := &predictionColumns{outputs: max(1, len(p.GetValues())), probability: p.Probability != nil, classes: slices.Sorted(maps.Keys(p.GetScores()))}
	for _, i := range p.GetIntervals() {
		c.levels = append(c.levels, i.GetCoverage())
	}
	return c
}

func (c *predictionColumns) header() []string {
	names := []string{"row"}
	each := func(name string) {
		for i := range c.outputs {
			if c.outputs > 1 {
				names = append(names, name+strconv.Itoa(i+1))
			} else {
				names = append(names, name)
			}
		}
	}
	each("prediction")
	for _, level := range c.levels {
		percent := "_" + strconv.FormatFloat(100*level, 'g', 6, 64)
		if c.outputs > 1 {
			percent += "_"
		}
		each("lower" + percent)
		each("upper" + percent)
	}
	if c.probability {
		names = append(names, "probability")
	}
	for _, class := range c.classes {
		names = append(names, "probability_"+class)
	}
	return names
}

func (c *predictionColumns) fields(p *hindsightv1.Prediction) []string {
	var fields []string
	add := func(single bool, one float64, several []float64) {
		if single {
			several = []float64{one}
		}
		for i := range c.outputs {
			if i < len(several) {
				fields = append(fields, exact(several[i]))
			} else {
				fields = append(fields, "")
			}
		}
	}
	if p.GetClass() != "" || len(c.classes) > 0 {
		fields = append(fields, p.GetClass())
	} else {
		add(p.Value != nil, p.GetValue(), p.GetValues())
	}
	for _, level := range c.levels {
		i := slices.IndexFunc(p.GetIntervals(), func(i *hindsightv1.Interval) bool { return i.GetCoverage() == level })
		in := new(hindsightv1.Interval)
		if i >= 0 {
			in = p.GetIntervals()[i]
		}
		add(in.Lower != nil, in.GetLower(), in.GetLowers())
		add(in.Upper != nil, in.GetUpper(), in.GetUppers())
	}
	if c.probability {
		fields = append(fields, command.Optional(p.Probability, exact))
	}
	for _, class := range c.classes {
		v, known := p.GetScores()[class]
		text := ""
		if known {
			text = exact(v)
		}
		fields = append(fields, text)
	}
	return fields
}
