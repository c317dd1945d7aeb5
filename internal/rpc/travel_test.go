package rpc_test

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

func (s *service) export(t *testing.T, id string) []byte {
	t.Helper()
	return s.exported(t, &hindsightv1.ExportModelRequest{Model: id})
}

func (s *service) exported(t *testing.T, r *hindsightv1.ExportModelRequest) []byte {
	t.Helper()
	stream := must(s.models.ExportModel(t.Context(), r))(t)
	var data []byte
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return data
		}
		require.NoError(t, err)
		data = append(data, piece.GetChunk()...)
	}
}

func (s *service) importFrom(t *testing.T, id string, data []byte) (*hindsightv1.Model, error) {
	t.Helper()
	stream := must(s.models.ImportModel(t.Context()))(t)
	for n := 0; n < len(data) || n == 0; n += 1000 {
		if err := stream.Send(&hindsightv1.ImportModelRequest{Id: id, Chunk: data[n:min(n+1000, len(data))]}); err != nil {
			break // The answer says why.
		}
	}
	answer, err := stream.CloseAndRecv()
	return answer.GetModel(), err
}

func TestTimeTravel(t *testing.T) {
	s := serve(t)
	ctx := t.Context()
	s.create(t, "m", linear(1))
	observe := func(y float64) {
		t.Helper()
		must(s.Observe(ctx, &hindsightv1.ObserveRequest{Model: "m", Features: []float64{y}, Target: label(y)}))(t)
	}
	digest := func(id string) string {
		t.Helper()
		stats := must(s.models.GetModelStats(ctx, &hindsightv1.GetModelStatsRequest{Model: id}))(t)
		return stats.GetStats().GetStateDigest()
	}
	observe(1)
	observe(2)
	kept := must(s.models.SnapshotModel(ctx, &hindsightv1.SnapshotModelRequest{Model: "m"}))(t)
	at2 := digest("m")
	k := kept.GetSnapshot()
	assert.True(t, k.GetSequence() == 2 && k.GetStateDigest() == at2 && k.GetBytes() != 0 && k.GetCreateTime().GetSeconds() != 0, "%v", kept)
	observe(3)
	at3, exported := digest("m"), s.export(t, "m")
	list, err := s.models.ListSnapshots(ctx, &hindsightv1.ListSnapshotsRequest{Model: "m"})
	assert.True(t, err == nil && len(list.GetSnapshots()) == 1 && proto.Equal(list.GetSnapshots()[0], kept.GetSnapshot()), "%v, %v", list, err)
	back, err := s.models.RestoreModel(ctx, &hindsightv1.RestoreModelRequest{Model: "m", Sequence: proto.Uint64(2)})
	assert.True(t, err == nil && back.GetModel().GetSequence() == 2 && digest("m") == at2, "%v, %v", back, err)
	_, err = s.models.RestoreModel(ctx, &hindsightv1.RestoreModelRequest{Model: "m", Sequence: proto.Uint64(3)})
	rejected(t, err, codes.NotFound, "SNAPSHOT_NOT_FOUND", "sequence 3", "2 observations")
	_, err = s.models.RestoreModel(ctx, &hindsightv1.RestoreModelRequest{Model: "m", Sequence: proto.Uint64(2), Time: timestamppb.Now()})
	rejected(t, err, codes.InvalidArgument, "INVALID_REQUEST")
	_, err = s.models.RestoreModel(ctx, &hindsightv1.RestoreModelRequest{Model: "m", Time: &timestamppb.Timestamp{Nanos: -1}})
	rejected(t, err, codes.InvalidArgument, "INVALID_REQUEST")
	_, err = s.models.RestoreModel(ctx, &hindsightv1.RestoreModelRequest{Model: "m", Time: &timestamppb.Timestamp{Seconds: 1}})
	rejected(t, err, codes.NotFound, "SNAPSHOT_NOT_FOUND")
	now, err := s.models.RestoreModel(ctx, &hindsightv1.RestoreModelRequest{Model: "m", Time: timestamppb.Now()})
	assert.True(t, err == nil && now.GetUndone() == 0 && digest("m") == at2, "%v, %v", now, err)
	_, err = s.models.RestoreModel(ctx, &hindsightv1.RestoreModelRequest{Model: "m"})
	rejected(t, err, codes.InvalidArgument, "INVALID_REQUEST", "sequence")
	_, err = s.models.SnapshotModel(ctx, &hindsightv1.SnapshotModelRequest{Model: "nobody"})
	rejected(t, err, codes.NotFound, "MODEL_NOT_FOUND", "nobody")
	m, err := s.importFrom(t, "copy", exported)
	assert.True(t, err == nil && m.GetSequence() == 3 && digest("copy") == at3, "%v, %v", m, err)
	_, err = s.importFrom(t, "copy", exported)
	rejected(t, err, codes.AlreadyExists, "MODEL_EXISTS")
	_, err = s.importFrom(t, "other", exported[:len(exported)-1])
	rejected(t, err, codes.InvalidArgument, "INVALID_REQUEST", "chunk", "checksum")
	_, err = s.importFrom(t, "other", nil)
	rejected(t, err, codes.InvalidArgument, "INVALID_REQUEST", "chunk")
	_, err = s.importFrom(t, "Other", exported)
	rejected(t, err, codes.InvalidArgument, "INVALID_ID", "id")
}
