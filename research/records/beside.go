package records

import (
	"context"
	"fmt"
	"math"

	"hindsight/cmd/research/markdown"
	"hindsight/cmd/research/papers"
	"hindsight/cmd/research/remote"
)

// besideLearners are the learners that named columns are taken through, in the order
// of the report.
func besideLearners() []string {
	return []string{papers.NameAuto, papers.NameLinear, papers.NameTaylor, papers.NameFourier, papers.NameAdaRaker}
}

// beside takes named columns through the learners, and the same stream scaled by
// hand, as the papers take it, unless those runs are known. It returns the games of
// the named columns and the runs of the scaled ones by their learners.
func (b *Bench) beside(ctx context.Context, p Plan, n *named, known map[string]Side, r *Results) (map[string]*game, map[string]Side, error) {
	r.Inferred = append(r.Inferred, Inferred{Stream: n.name, Rows: n.inferred.Rows, Columns: described(n.inferred.Columns)})
	table, err := papers.Load(p.Data, stream(n.name), p.Rows)
	if err != nil {
		return nil, nil, err
	}
	games, sides := make(map[string]*game), make(map[string]Side)
	for _, learner := range besideLearners() {
		g, err := b.play(ctx, n.name+"-named-"+learner, n.with(learner), n.rounds, nil)
		if err != nil {
			return nil, nil, fmt.Errorf("named columns through %s: %w", learner, err)
		}
		scaled, ok := known[learner]
		if !ok {
			if scaled, err = b.scaled(ctx, n.name, learner, table); err != nil {
				return nil, nil, fmt.Errorf("scaled columns through %s: %w", learner, err)
			}
		}
		games[learner], sides[learner] = g, scaled
		e := Beside{Stream: n.name, Learner: learner, Named: n.side(g, table.Unit), Scaled: scaled}
		b.Report("%-12s %-12s named %.4g, scaled %.4g: %.3f", e.Stream, e.Learner, e.Named.Value, e.Scaled.Value, e.Ratio())
		r.Beside = append(r.Beside, e)
	}
	return games, sides, nil
}

// side is the game of named columns. One unit is the range of the labels.
func (n *named) side(g *game, unit float64) Side {
	s := Side{
		Rows: g.rows, Features: int(g.stats.GetFeatures()), Value: g.loss / float64(g.rows) / (unit * unit),
		Skill: math.NaN(), Rate: g.rate(), Rejected: g.rejected,
	}
	if n.spec.GetClasses() != nil {
		s.Value = g.share()
	} else if f := g.stats.GetPerformance().GetPrequential(); f != nil {
		s.Skill = remote.Known(f.Skill)
	}
	return s
}

// scaled takes the columns that were scaled by hand through a learner.
func (b *Bench) scaled(ctx context.Context, name, learner string, t *papers.Table) (Side, error) {
	s := stream(name)
	for _, l := range papers.Learners() {
		if l.Name != learner {
			continue
		}
		e, err := (&papers.Bench{Server: b.Server}).Take(ctx, s, l, t, nil)
		if err != nil {
			return Side{}, err
		}
		side := Side{Rows: e.Rows, Features: e.Features, Value: e.Main(s), Skill: e.Skill, Rate: markdown.Round(e.Rate, rateDigits), Rejected: e.Rejected}
		if s.Signs {
			side.Skill = math.NaN() // It is that of the loss.
		}
		return side, nil
	}
	panic("records: no learner " + learner)
}
