package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine"
	"hindsight/internal/model"
)

func (m *models) SnapshotModel(ctx context.Context, r *hindsightv1.SnapshotModelRequest) (*hindsightv1.SnapshotModelResponse, error) {
	s, err := m.groups.engine(r.GetModel()).SnapshotModel(ctx, r.GetModel())
	if err != nil {
		return nil, err
	}
	return &hindsightv1.SnapshotModelResponse{Snapshot: snapshotToProto(s)}, nil
}

func (m *models) ListSnapshots(ctx context.Context, r *hindsightv1.ListSnapshotsRequest) (*hindsightv1.ListSnapshotsResponse, error) {
	snapshots, err := m.groups.engine(r.GetModel()).ListSnapshots(ctx, r.GetModel())
	if err != nil {
		return nil, err
	}
	response := &hindsightv1.ListSnapshotsResponse{}
	for _, s := range snapshots {
		response.Snapshots = append(response.Snapshots, snapshotToProto(s))
	}
	return response, nil
}

func snapshotToProto(s engine.Snapshot) *hindsightv1.Snapshot {
	return &hindsightv1.Snapshot{
		Sequence: s.Sequence, CreateTime: timestamppb.New(s.Created), Bytes: uint64(s.Bytes),
		StateDigest: fmt.Sprintf("%x", s.Digest),
	}
}

func (m *models) RestoreModel(ctx context.Context, r *hindsightv1.RestoreModelRequest) (*hindsightv1.RestoreModelResponse, error) {
	e := m.groups.engine(r.GetModel())
	sequence, err := restoreTo(ctx, e, r)
	if err != nil {
		return nil, err
	}
	info, undone, err := e.RestoreModel(ctx, r.GetModel(), sequence, r.GetValidateOnly())
	if err != nil {
		return nil, err
	}
	return &hindsightv1.RestoreModelResponse{Model: infoToProto(&info), Undone: undone}, nil
}

func restoreTo(ctx context.Context, e *engine.Engine, r *hindsightv1.RestoreModelRequest) (uint64, error) {
	switch {
	case r.Sequence == nil && r.GetTime() == nil: // 0 is a sequence: it undoes all observations.
		return 0, engine.Invalid("sequence", "nothing", "a sequence or a time; 0 undoes all observations")
	case r.Sequence != nil && r.GetTime() != nil:
		return 0, engine.Invalid("time", "a time and a sequence", "one of the two")
	case r.Sequence != nil:
		return r.GetSequence(), nil
	}
	if err := r.GetTime().CheckValid(); err != nil {
		return 0, engine.Invalid("time", err.Error(), "a time from year 1 to 9999")
	}
	return e.SequenceAt(ctx, r.GetModel(), r.GetTime().AsTime())
}

const chunkBytes = 256 << 10

func (m *models) ExportModel(r *hindsightv1.ExportModelRequest, stream grpc.ServerStreamingServer[hindsightv1.ExportModelResponse]) error {
	room := reservation{budget: m.transfers}
	defer room.release()
	data, err := m.groups.engine(r.GetModel()).ExportModel(stream.Context(), r.GetModel(), engine.ExportOptions{WithoutIDs: r.GetWithoutIds(), Reserve: room.take})
	if err == nil {
		err = room.take(max(0, int64(len(data))-room.held)) // What stands between the parts.
	}
	if err != nil {
		return err
	}
	for len(data) > 0 {
		n := min(len(data), chunkBytes)
		if err := stream.Send(&hindsightv1.ExportModelResponse{Chunk: data[:n]}); err != nil {
			return fmt.Errorf("rpc: export: %w", err)
		}
		data = data[n:]
	}
	return nil
}

// maxImportBytes bounds one import, which is in memory before it is checked.
const maxImportBytes = 2 << 30

func (m *models) ImportModel(stream grpc.ClientStreamingServer[hindsightv1.ImportModelRequest, hindsightv1.ImportModelResponse]) error {
	var id string
	var chunks [][]byte
	size := 0
	defer func() { m.transfers.Give(int64(size)) }()
	for n := 0; ; n++ {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("receive the import: %w", err)
		}
		if n == 0 {
			id = r.GetId()
			if err := engine.CheckID(id); err != nil {
				return err
			}
			// The header says that the chunks may follow.
			if err := stream.SendHeader(nil); err != nil {
				return fmt.Errorf("answer the import: %w", err)
			}
		} else if r.GetId() != "" && r.GetId() != id {
			return engine.Invalid("id", fmt.Sprintf("%q after %q", r.GetId(), id), "one id, in the first message")
		}
		if size+len(r.GetChunk()) > maxImportBytes {
			return &model.FieldError{
				Field: "chunk", Err: model.ErrSpecTooLarge, Got: fmt.Sprintf("more than %d bytes", maxImportBytes), Want: "less",
			}
		}
		if err := take(m.transfers, int64(len(r.GetChunk())), int64(size+len(r.GetChunk()))); err != nil {
			return err
		}
		size += len(r.GetChunk())
		if last := len(chunks) - 1; last >= 0 && len(chunks[last]) < chunkBytes { // Small chunks are one.
			chunks[last] = append(chunks[last], r.GetChunk()...)
		} else {
			chunks = append(chunks, r.GetChunk())
		}
	}
	info, err := m.groups.engine(id).ImportModel(stream.Context(), id, chunks...)
	if err != nil {
		return err
	}
	if err := stream.SendAndClose(&hindsightv1.ImportModelResponse{Model: infoToProto(&info)}); err != nil {
		return fmt.Errorf("answer the import: %w", err)
	}
	return nil
}
