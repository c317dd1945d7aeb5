package cli

import (
	"cmp"
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

func (p *prediction) checkRows() error {
	if p.csv == "" {
		return nil
	}
	rows := 0
	source, _, err := p.unlabelled(p.spec)
	if err == nil {
		rows, err = count(source)
	}
	switch {
	case err != nil:
		return &command.UsageError{Err: err}
	case rows == 0:
		return &command.UsageError{Err: stream.NoRow(p.csv)}
	}
	return nil
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
	rows, err := predictRows(ctx, m, source, e.Stdout)
	if err == nil && rows == 0 {
		err = &command.UsageError{Err: stream.NoRow(p.csv)}
	}
	e.notice(noticed, source.Notes(), &p.options)
	return errors.Join(err, source.Close())
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
	var first *hindsightv1.Prediction
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
			default:
				batch.Rows = append(batch.Rows, &hindsightv1.Row{Features: round.Features})
			}
			rows = len(batch.GetInputs()) + len(batch.GetRows())
		}
		if rows == 0 {
			break
		}
		predictions, err := m.PredictBatch(ctx, batch)
		if err != nil {
			return n, fmt.Errorf("rows %d to %d: %w", n+1, n+rows, err)
		}
		for _, p := range predictions {
			first = cmp.Or(first, p)
			columns, cells := predictionCells(first, p)
			if n++; n == 1 {
				_ = out.Write(append([]string{"row"}, columns...)) // The writer keeps its error.
			}
			_ = out.Write(append([]string{strconv.Itoa(n)}, cells...))
		}
	}
	out.Flush()
	return n, out.Error()
}

// predictionCells returns the columns of the first prediction of a file, and the cells of a prediction below them.
func predictionCells(first, p *hindsightv1.Prediction) (columns, cells []string) {
	add := func(column, cell string) { columns, cells = append(columns, column), append(cells, cell) }
	outputs := max(1, len(first.GetValues()))
	each := func(column, between string, single bool, one float64, several []float64) {
		if single {
			several = []float64{one}
		}
		for i := range outputs {
			name, cell := column, ""
			if outputs > 1 {
				name += between + strconv.Itoa(i+1)
			}
			if i < len(several) {
				cell = exact(several[i])
			}
			add(name, cell)
		}
	}
	if p.GetClass() != "" || len(first.GetScores()) > 0 {
		add("prediction", p.GetClass())
	} else {
		each("prediction", "", p.Value != nil, p.GetValue(), p.GetValues())
	}
	for _, level := range first.GetIntervals() {
		in := new(hindsightv1.Interval)
		for _, i := range p.GetIntervals() {
			if i.GetCoverage() == level.GetCoverage() {
				in = i
			}
		}
		percent := "_" + strconv.FormatFloat(100*level.GetCoverage(), 'g', 6, 64)
		each("lower"+percent, "_", in.Lower != nil, in.GetLower(), in.GetLowers())
		each("upper"+percent, "_", in.Upper != nil, in.GetUpper(), in.GetUppers())
	}
	if first.Probability != nil {
		add("probability", command.Optional(p.Probability, exact))
	}
	for _, class := range slices.Sorted(maps.Keys(first.GetScores())) {
		cell := ""
		if score, known := p.GetScores()[class]; known {
			cell = exact(score)
		}
		add("probability_"+class, cell)
	}
	return columns, cells
}
