package records

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/research/papers"
	"hindsight/cmd/research/remote"
)

// reliableLearners are the learners whose probabilities are looked at.
func reliableLearners() []string {
	return []string{nameRLSC, papers.NameAuto, papers.NameLinear, papers.NameFogd}
}

// reliable takes two classes through the learners. Those of known have been played.
func (b *Bench) reliable(ctx context.Context, s set, known map[string]*game, r *Results) error {
	for _, learner := range reliableLearners() {
		g := known[learner]
		if g == nil {
			var err error
			if g, err = b.play(ctx, s.name+"-"+learner, s.with(learner), s.rounds, nil); err != nil {
				return fmt.Errorf("through %s: %w", learner, err)
			}
		}
		e := Reliability{Stream: s.name, Learner: learner, Rows: g.rows, Errors: g.share(), Rejected: g.rejected}
		f := figures(g)
		e.Last, e.LogLoss, e.Brier = f.last, f.logLoss, f.brier
		for _, bin := range g.stats.GetClasses().GetReliability() {
			e.Bins = append(e.Bins, Bin{Members: bin.GetMembers(), Predicted: remote.Known(bin.Predicted), Found: remote.Known(bin.Found)})
		}
		b.Report("%-8s %-14s %.2f %% errors, probabilities off by %.3f at most", s.name, learner, 100*e.Errors, e.Worst())
		r.Reliability = append(r.Reliability, e)
	}
	return nil
}

// classFigures are what the server says of a classifier, NaN if it says nothing.
type classFigures struct{ last, logLoss, brier float64 }

func figures(g *game) classFigures {
	f := g.stats.GetClasses().GetPerformance().GetPrequential()
	if f == nil {
		return classFigures{math.NaN(), math.NaN(), math.NaN()}
	}
	return classFigures{f.GetLastClassErrorRate(), f.GetLogLoss(), f.GetBrierScore()}
}

const (
	frequencies = 200
	ridge       = 0.01
	// How many rows a digit is left out of, and how many of its own rows are then
	// scored by themselves.
	withheldRows = 3000
	firstRows    = 20
	// How many models learn at the same time when rates do not matter.
	sideBySide = 2
	pixels     = "pixels"
)

// The scalings of the digits.
const (
	byServer = "running"
	byHand   = "min-max"
)

// recodings are those of the runs with a withheld digit.
func recodings() []float64 { return []float64{0, 0.25, 0.5, 1} }

// scaledDigits are the digits with one scaling.
type scaledDigits struct {
	set
	scaling string
}

// readDigits reads the digits: as records of one list of pixels, which the server
// scales by default, and scaled by hand.
func readDigits(p Plan) ([]scaledDigits, error) {
	f, err := readFile(p, "digits")
	if err != nil {
		return nil, err
	}
	vectors, err := f.vectors()
	if err != nil {
		return nil, err
	}
	t, err := papers.Load(p.Data, stream("digits"), p.Rows)
	if err != nil {
		return nil, err
	}
	byDefault := vectors.lists()
	byDefault.spec.Learner = gaussian(nil)
	scaled := vectors.scaled(t)
	scaled.spec.Scaling = &hindsightv1.Scaling{Kind: &hindsightv1.Scaling_None{None: &hindsightv1.NoScaling{}}}
	scaled.spec.Learner = gaussian(&t.Sigma)
	return []scaledDigits{{byDefault, byServer}, {scaled, byHand}}, nil
}

// gaussian is the learner of the digits. Without a bandwidth it is the default.
func gaussian(sigma *float64) *hindsightv1.ModelSpec_Rlsc {
	return &hindsightv1.ModelSpec_Rlsc{Rlsc: &hindsightv1.Rlsc{
		Kernel:      &hindsightv1.Kernel{Kind: hindsightv1.Kernel_KIND_GAUSSIAN, Sigma: sigma},
		Frequencies: proto.Int32(frequencies), Lambda: proto.Float64(ridge),
	}}
}

// lists is the stream with the vector of each round as a named list of numbers.
func (s set) lists() set {
	out := set{name: s.name, spec: &hindsightv1.ModelSpec{Seed: papers.Seed, Inputs: []*hindsightv1.Input{{
		Name: pixels, Kind: &hindsightv1.Input_Vector{Vector: &hindsightv1.VectorInput{Length: proto.Int32(s.spec.GetDimension())}},
		Missing: hindsightv1.Input_MISSING_REJECT, // Else there is a feature more.
	}}}}
	for _, o := range s.rounds {
		list := &structpb.ListValue{}
		for _, v := range o.GetFeatures() {
			list.Values = append(list.Values, structpb.NewNumberValue(v))
		}
		out.rounds = append(out.rounds, &hindsightv1.ObserveRequest{
			Inputs: &structpb.Struct{Fields: map[string]*structpb.Value{pixels: structpb.NewListValue(list)}},
			Target: o.GetTarget(),
		})
	}
	return out
}

// digits takes the ten digits through rlsc, then with each of them withheld.
func (b *Bench) digits(ctx context.Context, p Plan, r *Results) error {
	both, err := readDigits(p)
	if err != nil {
		return err
	}
	for _, d := range both {
		g, err := b.play(ctx, "digits-"+d.scaling, d.spec, d.rounds, nil)
		if err != nil {
			return err
		}
		f := figures(g)
		r.Digits = append(r.Digits, Digits{
			Scaling: d.scaling, Rows: g.rows, Errors: g.share(), LogLoss: f.logLoss, Brier: f.brier, Rate: g.rate(), Rejected: g.rejected,
		})
		b.Report("%-8s %-14s %.2f %% errors", "digits", d.scaling, 100*g.share())
	}
	for _, d := range both {
		for _, a := range recodings() {
			w, err := b.withheld(ctx, d, a)
			if err != nil {
				return err
			}
			b.Report("%-8s %-14s recoding %g: %.0f %% of the first wrong, %.1f %% of the others",
				"digits", d.scaling, a, 100*w.First, 100*w.Others)
			r.Withheld = append(r.Withheld, w)
		}
	}
	return nil
}

// withheld leaves each digit out of the first rows, in a run of its own.
func (b *Bench) withheld(ctx context.Context, d scaledDigits, recoding float64) (Withheld, error) {
	spec := proto.CloneOf(d.spec)
	spec.GetRlsc().Recoding = proto.Float64(recoding)
	var tallies [10]tally
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(sideBySide)
	for digit := range tallies {
		group.Go(func() error {
			t := newTally(d.rounds, strconv.Itoa(digit))
			g, err := b.play(ctx, fmt.Sprintf("digits-%s-%g-%d", d.scaling, recoding, digit), spec, t.rounds, t.add)
			if err != nil {
				return err
			}
			if g.rejected != "" {
				return fmt.Errorf("without the digit %d: %s", digit, g.rejected)
			}
			tallies[digit] = *t
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return Withheld{}, err
	}
	var sum tally
	for _, t := range tallies {
		sum.first, sum.firstWrong = sum.first+t.first, sum.firstWrong+t.firstWrong
		sum.others, sum.othersWrong = sum.others+t.others, sum.othersWrong+t.othersWrong
	}
	return Withheld{
		Scaling: d.scaling, Recoding: recoding,
		First:  float64(sum.firstWrong) / float64(sum.first),
		Others: float64(sum.othersWrong) / float64(sum.others),
	}, nil
}

// tally checks a run in which a class is left out at first.
type tally struct {
	rounds []*hindsightv1.ObserveRequest
	class  string
	// late is the first round at which the class may come.
	late int
	// first counts the first rows of the class, others the rows of other classes from
	// round late on.
	first, firstWrong, others, othersWrong int
}

// newTally leaves a class out of the first rows.
func newTally(rounds []*hindsightv1.ObserveRequest, class string) *tally {
	t := &tally{class: class}
	for i, o := range rounds {
		if i == withheldRows {
			t.late = len(t.rounds)
		}
		if i >= withheldRows || o.GetClass() != class {
			t.rounds = append(t.rounds, o)
		}
	}
	if len(rounds) <= withheldRows {
		t.late = len(t.rounds)
	}
	return t
}

// add checks a round.
func (t *tally) add(round int, o *hindsightv1.Outcome) {
	wrong := 0
	if o.GetClass() != t.rounds[round].GetClass() {
		wrong = 1
	}
	switch own := t.rounds[round].GetClass() == t.class; {
	case own && t.first < firstRows:
		t.first++
		t.firstWrong += wrong
	case !own && round >= t.late:
		t.others++
		t.othersWrong += wrong
	}
}
