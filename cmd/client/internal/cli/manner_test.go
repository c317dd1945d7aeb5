package cli_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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
			return nil, reject(codes.InvalidArgument, "INVALID_REQUEST", "no such field", path)
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

// TestScripts runs the completion scripts through their shells' parsers.
func TestScripts(t *testing.T) {
	script := run(t, "completion", "bash").out
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	check := exec.CommandContext(t.Context(), bash, "-n")
	check.Stdin = strings.NewReader(script)
	out, err := check.CombinedOutput()
	assert.NoError(t, err, out)
	r := run(t, "__complete", "model", "list", "--learner", "")
	assert.True(t, strings.Contains(r.out, "pkawv_taylor\n") && strings.Contains(r.out, "auto\n"), "%+v", r)
}
