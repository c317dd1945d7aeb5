package cli_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// classified makes the statistics those of a classifier.
func classified(s *hindsightv1.ModelStats) {
	figures := func(errors, majority, last float64) *hindsightv1.ClassFigures {
		f := &hindsightv1.ClassFigures{
			ErrorRate: errors, MajorityErrorRate: majority, LastClassErrorRate: last, LogLoss: 2 * errors, BrierScore: errors / 2,
		}
		if least := min(majority, last); least > 0 {
			f.Skill = proto.Float64(1 - errors/least)
		}
		return f
	}
	s.ServedObservations = 3900
	s.Performance = &hindsightv1.Performance{Observations: 4000, Prequential: &hindsightv1.PerformanceFigures{MeanLoss: 0.125}}
	s.Classes = &hindsightv1.ClassStats{
		Performance: &hindsightv1.ClassPerformance{Observations: 4000, Prequential: figures(0.0248, 0.88, 0.9), Served: figures(0.5, 0.88, 0.9)},
		Recent:      &hindsightv1.ClassPerformance{Observations: 1016, Prequential: figures(0, 0, 0.5), Served: figures(0.75, 0.5, 0.5)},
		Classes: []*hindsightv1.ClassCounts{
			{Class: "cat", Observed: 1000, Errors: 25, Predicted: 1010, Expected: 1002.25},
			{Class: "a very long name of a class that would take a whole line"},
			{Class: "two\nlines", Observed: 3000, Errors: 75, Predicted: 2990, Expected: 2997.75},
		},
	}
	for n := range 10 {
		s.Classes.Reliability = append(s.Classes.Reliability, &hindsightv1.ReliabilityBin{Low: float64(n) / 10, High: float64(n+1) / 10})
	}
	first, last := s.GetClasses().GetReliability()[0], s.GetClasses().GetReliability()[9]
	first.Members, first.Predicted, first.Found = 7900, proto.Float64(0.00125), proto.Float64(0)
	last.Members, last.Predicted, last.Found = 100, proto.Float64(0.95), proto.Float64(0.96)
}

const classTable = `errors           model   most frequent class  last class  log-loss  Brier score  skill
all rounds       prequential  2.48 %  88 %                 90 %        0.0496    0.0124       0.972  better than trivial
                 served       50 %    88 %                 90 %        1         0.25         0.432  better than trivial
last 1016 rounds prequential  0 %     0 %                  50 %        0         0
                 served       75 %    50 %                 50 %        1.5       0.375        -0.5   worse than trivial
`

func TestStatsTablesOfAClassifier(t *testing.T) {
	f := served(t)
	f.stats = func(s *hindsightv1.ModelStats) {
		s.Drift = nil
		classified(s)
	}
	r := run(t, "model", "stats", "m")
	want := squeeze(classTable) + `
probabilities how many mean class observed
0 to 10 % 7900 0.125 % 0 %
90 to 100 % 100 95 % 96 %

class observed errors recall predicted expected
"two\nlines" 3000 75 97.5 % 2990 2997.8
cat 1000 25 97.5 % 1010 1002.2
a very long name of a class that would … 0 0 0 0.0
`
	if got := squeeze(tables(r.out)); r.code != 0 || got != want {
		t.Errorf("exit code %d, tables\n%swant\n%s", r.code, got, want)
	}
	if !strings.Contains(squeeze(r.out), "\nerror rate, prequential 2.48 %\n") || strings.Contains(r.out, "mean loss") {
		t.Errorf("statistics\n%s", r.out)
	}
	c := document(t, 0, "model", "stats", "m")["classes"].(map[string]any)
	if len(c["reliability"].([]any)) != 10 || len(c["classes"].([]any)) != 3 {
		t.Errorf("classes %v", c)
	}
}

// A classifier that has learned nothing has no tables.
func TestStatsOfANewClassifier(t *testing.T) {
	f := served(t)
	f.stats = func(s *hindsightv1.ModelStats) {
		s.Drift, s.Classes = nil, &hindsightv1.ClassStats{Performance: &hindsightv1.ClassPerformance{}, Recent: &hindsightv1.ClassPerformance{}}
	}
	if r := run(t, "model", "stats", "m"); r.code != 0 || tables(r.out) != "" || strings.Contains(r.out, "NaN") {
		t.Errorf("%+v", r)
	}
}

// Of many classes the table shows those that were observed most.
func TestStatsOfManyClasses(t *testing.T) {
	f := served(t)
	f.stats = func(s *hindsightv1.ModelStats) {
		s.Drift, s.Classes = nil, &hindsightv1.ClassStats{}
		for n := range 100 {
			s.Classes.Classes = append(s.Classes.Classes, &hindsightv1.ClassCounts{Class: fmt.Sprint("class-", n), Observed: uint64(n / 2)})
		}
	}
	out := run(t, "model", "stats", "m").out
	lines := strings.Split(strings.TrimSpace(tables(out)), "\n")
	if len(lines) != 22 || !strings.HasPrefix(lines[1], "class-98 ") || !strings.HasPrefix(lines[20], "class-81 ") || lines[21] != "and 80 more" {
		t.Errorf("%d lines:\n%s", len(lines), out)
	}
}

// A replay of classes tells the error rate of this run where others have a mean loss,
// and the skill of the errors.
func TestReplayOfClasses(t *testing.T) {
	f := serving(t)
	f.stats = func(s *hindsightv1.ModelStats) {
		s.Drift = nil
		classified(s)
	}
	path := written(t, "rows.csv", "x1,x2,kind\n1,5,up\n2,6,down\n3,7,up\n4,8,up\n")
	args := func(run string) []string {
		return []string{"replay", "--csv", path, "--target", "kind", "--model", "m-" + run, "--run", run, "--create", `{"classes": {}}`}
	}
	r := run(t, args("table")...)
	if r.code != 0 || !strings.Contains(squeeze(r.out), "\nerror rate, prequential 33.3 %\n") || strings.Contains(r.out, "mean loss") || squeeze(tables(r.out)) != squeeze(classTable) {
		t.Errorf("%+v", r)
	}
	d := document(t, 0, args("json")...)
	skill, served := d["skill"].(float64), d["servedSkill"].(float64)
	if d["errorRate"] != 1.0/3 || math.Abs(skill-(1-0.0248/0.88)) > 1e-12 || math.Abs(served-(1-0.5/0.88)) > 1e-12 || d["verdict"] != "better than trivial" {
		t.Errorf("%v", d)
	}
}
