package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

func filled[T any, P interface {
	*T
	proto.Message
}](request P) P {
	if request == nil {
		return P(new(T))
	}
	return proto.CloneOf(request)
}

// Create creates a model. If the same model with the same spec exists, it is the answer.
func (c *Client) Create(ctx context.Context, request *hindsightv1.CreateModelRequest) (*hindsightv1.Model, error) {
	answer, err := invoke(ctx, c, true, c.models.CreateModel, request)
	return answer.GetModel(), err
}

// Create creates the model with a spec; see Client.Create.
func (m *Model) Create(ctx context.Context, spec *hindsightv1.ModelSpec) (*hindsightv1.Model, error) {
	return m.client.Create(ctx, &hindsightv1.CreateModelRequest{Id: m.id, Spec: spec})
}

// Get returns the model.
func (m *Model) Get(ctx context.Context) (*hindsightv1.Model, error) {
	answer, err := invoke(ctx, m.client, true, m.client.models.GetModel, &hindsightv1.GetModelRequest{Model: m.id})
	return answer.GetModel(), err
}

// ListPage answers one page of models.
func (c *Client) ListPage(ctx context.Context, request *hindsightv1.ListModelsRequest) (*hindsightv1.ListModelsResponse, error) {
	return invoke(ctx, c, true, c.models.ListModels, filled(request))
}

// List yields the models of all pages. An error is the last element.
func (c *Client) List(ctx context.Context, request *hindsightv1.ListModelsRequest) iter.Seq2[*hindsightv1.Model, error] {
	return func(yield func(*hindsightv1.Model, error) bool) {
		r := filled(request)
		for {
			page, err := c.ListPage(ctx, r)
			if err == nil && page.GetNextPageToken() != "" && page.GetNextPageToken() == r.GetPageToken() {
				err = fmt.Errorf("%w: the same page twice", ErrProtocol)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, m := range page.GetModels() {
				if !yield(m, nil) {
					return
				}
			}
			if r.PageToken = page.GetNextPageToken(); r.GetPageToken() == "" {
				return
			}
		}
	}
}

// Update changes the fields of the mask. The call fills in an empty request.Model.Id. With an etag
// it is not sent again.
func (m *Model) Update(ctx context.Context, request *hindsightv1.UpdateModelRequest) (*hindsightv1.Model, error) {
	r := filled(request)
	if r.GetModel() == nil {
		r.Model = &hindsightv1.Model{}
	}
	if r.GetModel().GetId() == "" {
		r.Model.Id = m.id
	}
	answer, err := invoke(ctx, m.client, r.GetModel().GetEtag() == "", m.client.models.UpdateModel, r)
	return answer.GetModel(), err
}

// Delete deletes the model. The request may be nil; the call fills in the model. The answer is
// the model if Undelete can bring it back. The call is sent again unless the request has an etag. If
// the answer of an earlier try was lost, Delete fails with MODEL_NOT_FOUND.
func (m *Model) Delete(ctx context.Context, request *hindsightv1.DeleteModelRequest) (*hindsightv1.Model, error) {
	r := filled(request)
	r.Model = m.id
	answer, err := invoke(ctx, m.client, r.GetEtag() == "", m.client.models.DeleteModel, r)
	return answer.GetModel(), err
}

// Undelete brings the deleted model back.
func (m *Model) Undelete(ctx context.Context) (*hindsightv1.Model, error) {
	answer, err := invoke(ctx, m.client, false, m.client.models.UndeleteModel, &hindsightv1.UndeleteModelRequest{Model: m.id})
	return answer.GetModel(), err
}

// Stats returns the statistics of the model. The request may be nil; the call fills in the model.
func (m *Model) Stats(ctx context.Context, request *hindsightv1.GetModelStatsRequest) (*hindsightv1.ModelStats, error) {
	r := filled(request)
	r.Model = m.id
	answer, err := invoke(ctx, m.client, true, m.client.models.GetModelStats, r)
	return answer.GetStats(), err
}

// History returns the history of the model.
func (m *Model) History(ctx context.Context) (*hindsightv1.GetModelHistoryResponse, error) {
	return invoke(ctx, m.client, true, m.client.models.GetModelHistory, &hindsightv1.GetModelHistoryRequest{Model: m.id})
}

// Compare compares the model with its followers on the same observations.
func (m *Model) Compare(ctx context.Context) ([]*hindsightv1.Comparison, error) {
	answer, err := invoke(ctx, m.client, true, m.client.models.CompareModels, &hindsightv1.CompareModelsRequest{Model: m.id})
	return answer.GetComparisons(), err
}

// Validate fills in the defaults of a spec and estimates its cost.
func (c *Client) Validate(ctx context.Context, spec *hindsightv1.ModelSpec) (*hindsightv1.ValidateSpecResponse, error) {
	return invoke(ctx, c, true, c.models.ValidateSpec, &hindsightv1.ValidateSpecRequest{Spec: spec})
}

// Snapshot writes a snapshot of the model.
func (m *Model) Snapshot(ctx context.Context) (*hindsightv1.Snapshot, error) {
	answer, err := invoke(ctx, m.client, true, m.client.models.SnapshotModel, &hindsightv1.SnapshotModelRequest{Model: m.id})
	return answer.GetSnapshot(), err
}

// Snapshots lists the snapshots of the model, the newest first.
func (m *Model) Snapshots(ctx context.Context) ([]*hindsightv1.Snapshot, error) {
	answer, err := invoke(ctx, m.client, true, m.client.models.ListSnapshots, &hindsightv1.ListSnapshotsRequest{Model: m.id})
	return answer.GetSnapshots(), err
}

// Restore takes the model back to a sequence. The call fills in the model and is not
// sent again.
func (m *Model) Restore(ctx context.Context, request *hindsightv1.RestoreModelRequest) (*hindsightv1.RestoreModelResponse, error) {
	r := filled(request)
	r.Model = m.id
	return invoke(ctx, m.client, false, m.client.models.RestoreModel, r)
}

// SetAlias makes an alias name a model. With an expected model it is not sent again.
func (c *Client) SetAlias(ctx context.Context, request *hindsightv1.SetAliasRequest) (*hindsightv1.Alias, error) {
	answer, err := invoke(ctx, c, request.GetExpectedModel() == "", c.models.SetAlias, request)
	return answer.GetAlias(), err
}

// Aliases lists the aliases by name.
func (c *Client) Aliases(ctx context.Context) ([]*hindsightv1.Alias, error) {
	answer, err := invoke(ctx, c, true, c.models.ListAliases, &hindsightv1.ListAliasesRequest{})
	return answer.GetAliases(), err
}

// DeleteAlias removes an alias. Its model stays. The call is not sent again.
func (c *Client) DeleteAlias(ctx context.Context, alias string) error {
	_, err := invoke(ctx, c, false, c.models.DeleteAlias, &hindsightv1.DeleteAliasRequest{Alias: alias})
	return err
}

// Servers returns the servers of a group by its number, of group 0 all servers of the cluster. Without a cluster the list
// is empty.
func (c *Client) Servers(ctx context.Context, group uint32) (*hindsightv1.GetClusterResponse, error) {
	return invoke(ctx, c, true, c.cluster.GetCluster, &hindsightv1.GetClusterRequest{Group: group})
}

// MoveOwner makes another server the owner of a group, named by id or address. An empty name lets the cluster
// choose.
func (c *Client) MoveOwner(ctx context.Context, group uint32, server string) error {
	_, err := invoke(ctx, c, server != "", c.cluster.MoveOwner, &hindsightv1.MoveOwnerRequest{Group: group, Server: server})
	return err
}

// Rebalance makes one step towards a cluster whose servers have about as many groups. The servers in
// leaving lose all groups. Call it until no step is left.
func (c *Client) Rebalance(ctx context.Context, leaving ...string) (*hindsightv1.RebalanceClusterResponse, error) {
	return invoke(ctx, c, true, c.cluster.RebalanceCluster, &hindsightv1.RebalanceClusterRequest{Leaving: leaving})
}

// DrainServer moves the ownership of all groups away from a server, so that an operator can stop the server.
func (c *Client) DrainServer(ctx context.Context, server string) error {
	_, err := invoke(ctx, c, true, c.cluster.DrainServer, &hindsightv1.DrainServerRequest{Server: server})
	return err
}

// RemoveServer removes a server from the cluster for good. The client does not retry the call.
func (c *Client) RemoveServer(ctx context.Context, server string) error {
	_, err := invoke(ctx, c, false, c.cluster.RemoveServer, &hindsightv1.RemoveServerRequest{Server: server})
	return err
}

// Watch yields events as the model learns, until ctx ends or the loop is left. An error is the
// last element; after a lost connection, watch again. The request may be nil; the call fills in
// the model.
func (m *Model) Watch(ctx context.Context, request *hindsightv1.WatchModelRequest) iter.Seq2[*hindsightv1.WatchModelResponse, error] {
	return func(yield func(*hindsightv1.WatchModelResponse, error) bool) {
		r := filled(request)
		r.Model = m.id
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := m.client.models.WatchModel(ctx, r)
		for err == nil {
			var event *hindsightv1.WatchModelResponse
			if event, err = stream.Recv(); err == nil && !yield(event, nil) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(nil, m.client.failed(err))
		}
	}
}

// chunkBytes is the size of a piece of an imported model.
const chunkBytes = 256 << 10

// Export writes the model: its spec, its state, and unless the request leaves them out its
// remembered ids and its pending predictions. The request may be nil; the call fills in the model.
// It has no timeout and is not sent again.
func (m *Model) Export(ctx context.Context, to io.Writer, request *hindsightv1.ExportModelRequest) (size int64, err error) {
	r := filled(request)
	r.Model = m.id
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := m.client.models.ExportModel(ctx, r)
	if err != nil {
		return 0, m.client.failed(err)
	}
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return size, m.client.failed(err)
		}
		n, err := to.Write(piece.GetChunk())
		size += int64(n)
		if err != nil {
			return size, fmt.Errorf("write the model: %w", err)
		}
	}
}

// Import creates the model from an exported one. The call has no timeout. After NOT_OWNER, which means that nothing was
// changed, Import sends a reader that can seek again.
func (m *Model) Import(ctx context.Context, from io.Reader) (*hindsightv1.Model, error) {
	begin, seekable := int64(0), false
	if s, ok := from.(io.Seeker); ok {
		var err error
		begin, err = s.Seek(0, io.SeekCurrent)
		seekable = err == nil // A pipe fails.
	}
	for attempt := 0; ; attempt++ {
		model, err := m.send(ctx, from)
		var rejected *Error
		if !seekable || !errors.As(err, &rejected) || rejected.Reason != hindsightv1.ErrorReason_NOT_OWNER.String() || !m.client.retry.wait(ctx, attempt, err) {
			return model, err
		}
		if _, err := from.(io.Seeker).Seek(begin, io.SeekStart); err != nil {
			return nil, fmt.Errorf("read the model again: %w", err)
		}
	}
}

// send makes one try of Import.
func (m *Model) send(ctx context.Context, from io.Reader) (*hindsightv1.Model, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := m.client.models.ImportModel(ctx)
	if err != nil {
		return nil, m.client.failed(err)
	}
	piece := make([]byte, chunkBytes)
	for first := true; ; first = false {
		n, err := io.ReadFull(from, piece)
		if n > 0 || first {
			// CloseAndRecv returns why the server rejected.
			if stream.Send(&hindsightv1.ImportModelRequest{Id: m.id, Chunk: piece[:n]}) != nil {
				break
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the model: %w", err)
		}
	}
	answer, err := stream.CloseAndRecv()
	if err != nil {
		return nil, m.client.failed(err)
	}
	return answer.GetModel(), nil
}
