package cli_test

import (
	"context"
	"encoding/csv"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// UpdateModel sets what the mask names.
func (f *fake) UpdateModel(_ context.Context, r *hindsightv1.UpdateModelRequest) (*hindsightv1.UpdateModelResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, err := f.model(r.GetModel().GetId())
	if err != nil {
		return nil, err
	}
	for _, path := range r.GetUpdateMask().GetPaths() {
		key, isLabel := strings.CutPrefix(path, "labels.")
		switch {
		case path == "display_name":
			m.model.DisplayName = r.GetModel().GetDisplayName()
		case isLabel && r.GetModel().GetLabels()[key] == "":
			delete(m.model.GetLabels(), key)
		case isLabel:
			m.model.Labels = map[string]string{key: r.GetModel().GetLabels()[key]}
		default:
			return nil, refuse(codes.InvalidArgument, "INVALID_REQUEST", "no such field", path)
		}
	}
	return &hindsightv1.UpdateModelResponse{Model: proto.CloneOf(m.model)}, nil
}

// WatchModel sends statistics three times, with an outcome between them.
func (f *fake) WatchModel(r *hindsightv1.WatchModelRequest, s grpc.ServerStreamingServer[hindsightv1.WatchModelResponse]) error {
	for range 3 {
		stats, err := f.GetModelStats(s.Context(), &hindsightv1.GetModelStatsRequest{Model: r.GetModel()})
		if err != nil {
			return err
		}
		stats.GetStats().Experts = nil // Events do not have them.
		for _, event := range []*hindsightv1.WatchModelResponse{
			{Event: &hindsightv1.WatchModelResponse_Stats{Stats: stats.GetStats()}},
			{Event: &hindsightv1.WatchModelResponse_Outcome{Outcome: &hindsightv1.OutcomeEvent{}}},
		} {
			if err := s.Send(event); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *fake) SetAlias(_ context.Context, r *hindsightv1.SetAliasRequest) (*hindsightv1.SetAliasResponse, error) {
	return &hindsightv1.SetAliasResponse{Alias: &hindsightv1.Alias{Alias: r.GetAlias(), Model: r.GetModel(), PreviousModel: r.GetExpectedModel()}}, nil
}

func (f *fake) ListAliases(context.Context, *hindsightv1.ListAliasesRequest) (*hindsightv1.ListAliasesResponse, error) {
	return &hindsightv1.ListAliasesResponse{Aliases: []*hindsightv1.Alias{{Alias: "champion", Model: "m"}}}, nil
}

func (f *fake) CompareModels(context.Context, *hindsightv1.CompareModelsRequest) (*hindsightv1.CompareModelsResponse, error) {
	figures := func(loss float64) *hindsightv1.Performance {
		return &hindsightv1.Performance{Prequential: &hindsightv1.PerformanceFigures{MeanLoss: loss, Skill: proto.Float64(0.5)}}
	}
	return &hindsightv1.CompareModelsResponse{Comparisons: []*hindsightv1.Comparison{
		{Model: "m", Performance: figures(0.25)}, {Model: "n", Performance: figures(0.125), Followed: figures(0.1)},
	}}, nil
}

func TestDidYouMean(t *testing.T) {
	served(t)
	for want, args := range map[string][]string{
		`unknown command "replya" for "hindsight"; is it "replay"?`:                        {"replya"},
		`unknown command "craete" for "hindsight model"; is it "create"?`:                  {"model", "craete"},
		`unknown flag: --mdoel; is it "--model"?`:                                          {"predict", "--mdoel", "m"},
		"unknown flag: --once\n":                                                           {"top", "--once"},
		`--label: got "x", want a number`:                                                  {"observe", "--model", "m", "--label", "x", "--features", "1,2"},
		`--timeout: got "5", want a time span with its unit`:                               {"--timeout", "5", "model", "list"},
		`--limit: got "1.5", want an integer`:                                              {"replay", "--limit", "1.5"},
		`"yaml" for "-o, --output" flag: want one of table, json,`:                         {"-o", "yaml", "model", "list"},
		`feature 2: "x" is not a number`:                                                   {"predict", "--model", "m", "--features", "1,x,-2"},
		`feature 3: "1e400" is out of range`:                                               {"predict", "-o", "json", "--model", "m", "--features", "1,-1,1e400"},
		`unknown field "pkawv_tailor"; is it "pkawv_taylor"?`:                              {"model", "create", "x", "--spec", `{"pkawv_tailor": {}}`},
		`unknown field "learner"; a learner is a field with its own name`:                  {"model", "create", "x", "--spec", `{"dimension": 2, "learner": "auto"}`},
		`unknown field "degre"; is it "degree"?`:                                           {"model", "create", "x", "--spec", `{"pkawv_taylor": {"degre": 2}}`},
		`start one with "hindsight-server --data-dir DIR", or name another with --address`: {"--address", nowhere(t), "model", "list"},
	} {
		if r := run(t, args...); !strings.Contains(strings.ReplaceAll(r.errors, "\u00a0", " "), want) || strings.Count(r.errors, "\n") != 1 {
			t.Errorf("%v: %q, want %q", args, r.errors, want)
		}
	}
}

// Where standard input is no terminal, delete and restore want --yes.
func TestConfirm(t *testing.T) {
	f := served(t)
	for _, args := range [][]string{{"model", "delete", "m"}, {"model", "restore", "m", "--sequence", "0"}} {
		if r := runWith(t.Context(), "y\n", args...); r.code != 2 || !strings.Contains(r.errors, "--yes") {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if f.models["m"] == nil {
		t.Error("the model was deleted")
	}
}

func TestFormats(t *testing.T) {
	served(t)
	document(t, 0, "model", "create", "n", "--spec", `{"dimension": 1}`)
	rows := func(args ...string) [][]string {
		r := run(t, args...)
		records, err := csv.NewReader(strings.NewReader(r.out)).ReadAll()
		if r.code != 0 || err != nil {
			t.Fatalf("%v: %+v, %v", args, r, err)
		}
		return records
	}
	list := rows("model", "list", "-o", "csv")
	if len(list) != 3 || !slices.Equal(list[0], []string{"id", "learner", "dimension", "observations", "created"}) || list[1][0] != "m" || list[2][2] != "1" {
		t.Errorf("%q", list)
	}
	stats := rows("model", "stats", "m", "-o", "csv")
	if at := slices.Index(stats[0], "regretBound"); len(stats) != 2 || at < 0 || stats[1][at] != "1" {
		t.Errorf("%q", stats)
	}
	if d := decode(t, run(t, "model", "list", "-o", "json").out); len(d["models"].([]any)) != 2 {
		t.Errorf("%v", d)
	}
	r := run(t, "model", "list", "-o", "xml")
	if r.code != 2 || !strings.Contains(r.errors, "want one of table, json, csv") {
		t.Errorf("%+v", r)
	}
	if d := decode(t, run(t, "model", "get", "none", "-o", "json").out); d["error"] == nil {
		t.Errorf("%v", d)
	}
	if r := run(t, "--help"); strings.Contains(r.out, "--json  ") || !strings.Contains(r.out, "--output") {
		t.Errorf("the help shows %q", r.out)
	}
}

// Without a terminal top prints its table once, and no colours.
func TestTop(t *testing.T) {
	served(t)
	document(t, 0, "observe", "--model", "m", "--features", "1,2", "--label", "1")
	r := run(t, "top")
	if r.code != 0 || !strings.HasPrefix(r.out, "ID  LEARNER       OBSERVATIONS") || !strings.Contains(r.out, "m   running_mean  1") || strings.Contains(r.out, "\x1b") {
		t.Errorf("%+v", r)
	}
	if d := document(t, 0, "top"); len(d["models"].([]any)) != 1 {
		t.Errorf("%v", d)
	}
	if r := run(t, "top", "--interval", "1ms"); r.code != 2 {
		t.Errorf("%+v", r)
	}
}

func TestWatch(t *testing.T) {
	served(t)
	document(t, 0, "observe", "--model", "m", "--features", "1,2", "--label", "1")
	if r := run(t, "model", "stats", "m", "--watch", "--events", "2", "-o", "csv"); r.code != 0 || strings.Count(r.out, "\n") != 3 || !strings.HasPrefix(r.out, "observations,served_loss,served_skill,regret\n1,") {
		t.Errorf("%+v", r)
	}
	if r := run(t, "model", "stats", "m", "--watch", "--events", "2", "-o", "json"); r.code != 0 || strings.Count(r.out, "\n") != 2 || !strings.Contains(r.out, `"stateDigest"`) {
		t.Errorf("%+v", r)
	}
	if r := run(t, "model", "stats", "m", "--watch"); r.code != 1 || !strings.Contains(r.errors, "the server ended the events") || strings.Count(r.out, "\n") != 4 {
		t.Errorf("%+v", r)
	}
	if r := run(t, "model", "stats", "none", "--watch"); r.code != 1 || !strings.Contains(r.errors, "MODEL_NOT_FOUND") {
		t.Errorf("%+v", r)
	}
}

func TestResources(t *testing.T) {
	f := served(t)
	document(t, 0, "model", "update", "m", "--label", "stage=live", "--display-name", "North")
	if m := f.models["m"].model; m.GetDisplayName() != "North" || m.GetLabels()["stage"] != "live" {
		t.Errorf("%v", m)
	}
	document(t, 0, "model", "update", "m", "--without-label", "stage")
	if m := f.models["m"].model; len(m.GetLabels()) != 0 {
		t.Errorf("%v", m)
	}
	if r := run(t, "model", "update", "m"); r.code != 2 {
		t.Errorf("%+v", r)
	}
	if r := run(t, "model", "restore", "m", "--undelete"); r.code != 1 || !strings.Contains(r.errors, "UNIMPLEMENTED") {
		t.Errorf("%+v", r)
	}
	if d := document(t, 0, "alias", "set", "champion", "m", "--expected", "old"); d["model"] != "m" || d["previousModel"] != "old" {
		t.Errorf("%v", d)
	}
	if r := run(t, "alias", "list"); !strings.Contains(r.out, "champion  m") {
		t.Errorf("%+v", r)
	}
	if r := run(t, "model", "compare", "m", "-o", "csv"); !strings.Contains(r.out, "n,,0,0,0.125,0.1,0.5,,,\n") {
		t.Errorf("%+v", r)
	}
}

func TestVersion(t *testing.T) {
	if r := run(t, "--version"); r.code != 0 || r.out != "v1\n" {
		t.Errorf("%+v", r)
	}
}

// TestScripts runs the completion scripts through their shells' parsers.
func TestScripts(t *testing.T) {
	script := run(t, "completion", "bash").out
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	check := exec.CommandContext(t.Context(), bash, "-n")
	check.Stdin = strings.NewReader(script)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	r := run(t, "__complete", "model", "list", "--learner", "")
	if !strings.Contains(r.out, "pkawv_taylor\n") || !strings.Contains(r.out, "auto\n") {
		t.Errorf("%+v", r)
	}
}
