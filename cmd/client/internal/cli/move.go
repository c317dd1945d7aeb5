package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/command"
)

func (e *env) modelMove() verb {
	var to string
	var cancel bool
	return verb{
		use:   "move ID --to ADDRESS",
		short: "Move a model to another server, while both serve",
		long: `Move a model to another server with all that it has learned, the ids that it
remembers and its pending predictions. During the move calls are answered MODEL_MOVING, and
clients try them again; afterwards MODEL_MOVED with the other address. Predictions without
remember go on here.

After an interruption give the same command again: it goes on where the move was. --cancel ends a move that the other server does not have yet,
and the model takes observations here again. Give it when no move is running.

The model stays here until it is deleted. Aliases and followers stay here.`,
		example: `  hindsight --address old:50051 model move energy --to new:50051
  hindsight --address old:50051 model delete energy --yes`,
		complete: []completer{models},
		flags: func(f *flagSet) {
			f.StringVar(&to, "to", "", "the gRPC address of the other server, as clients reach it")
			f.BoolVar(&cancel, "cancel", false, "end a move that the other server does not have yet")
		},
		before: func(*call) error {
			if cancel == (to != "") {
				return command.Usagef("give --to or --cancel")
			}
			return nil
		},
		run: func(c *call) error {
			m, err := c.model().Get(c.ctx())
			if err != nil {
				return err
			}
			if cancel {
				return e.cancelMove(c.ctx(), c.client, m)
			}
			return e.moveTo(c.ctx(), c.client, m, to)
		},
	}
}

// move is a model on its way from one server to another.
type move struct {
	id, address      string
	source, target   *client.Client
	began, learnable time.Time
}

// movedModel is the answer of the command.
type movedModel struct {
	Model       string  `json:"model"`
	From        string  `json:"from"`
	To          string  `json:"to"`
	Sequence    uint64  `json:"sequence"`
	StateDigest string  `json:"stateDigest"`
	Seconds     float64 `json:"secondsWithoutObservations,omitempty"`
}

// moveTo moves a model, or goes on with its move.
func (e *env) moveTo(ctx context.Context, source *client.Client, m *hindsightv1.Model, to string) error {
	address, err := client.Address(to)
	if err != nil {
		return &command.UsageError{Err: err}
	}
	moved := movedModel{Model: m.GetId(), From: source.Address(), To: address}
	err = e.withMove(source, m, address, func(v *move) error {
		state, err := v.run(ctx, m)
		moved.Sequence, moved.StateDigest = state.GetSequence(), state.GetStateDigest()
		moved.Seconds = v.learnable.Sub(v.began).Seconds()
		return err
	})
	if err != nil {
		return err
	}
	return e.emit(moved, func(w *command.Page) {
		w.Printf("moved %s to %s\n", moved.Model, address)
		w.Row("observations", moved.Sequence)
		w.Row("state digest", moved.StateDigest)
		if moved.Seconds > 0 {
			w.Row("took no observations for", fmt.Sprintf("%.3f s", moved.Seconds))
		}
	})
}

// withMove calls do with a connection to the other server.
func (e *env) withMove(source *client.Client, m *hindsightv1.Model, address string, do func(*move) error) error {
	target, err := e.dialTo(address)
	if err != nil {
		return err
	}
	return errors.Join(do(&move{id: m.GetId(), address: address, source: source, target: target}), target.Close())
}

// run does the remaining steps of a move. After each step at most one server takes
// observations.
func (v *move) run(ctx context.Context, m *hindsightv1.Model) (*hindsightv1.ImportedState, error) {
	begun := m.GetMove()
	if begun != nil && begun.GetAddress() != v.address {
		return nil, fmt.Errorf("%s is moved to %s: give that address, or --cancel first", v.id, begun.GetAddress())
	}
	if begun == nil {
		if err := v.ready(ctx, m); err != nil {
			return nil, err
		}
		v.began = time.Now()
		// The etag makes sure that this command alone begins the move.
		if err := v.set(ctx, &hindsightv1.Move{Address: v.address}, m.GetEtag()); err != nil {
			return nil, v.interrupted(err)
		}
	}
	// From here on the model does not change.
	if begun.GetComplete() {
		return v.state(ctx)
	}
	there, err := v.target.Model(v.id).Get(ctx)
	if errors.Is(err, client.ErrModelNotFound) {
		if there, err = v.copy(ctx); begun == nil && refused(err) {
			return nil, errors.Join(err, v.set(ctx, nil, ""))
		}
	}
	if err != nil {
		return nil, v.interrupted(err)
	}
	if begun == nil {
		v.learnable = time.Now()
	}
	state, err := v.state(ctx)
	if err != nil {
		return nil, v.interrupted(err)
	}
	if !same(there.GetImported(), state) {
		return nil, fmt.Errorf("the server at %s has another model %s: delete it there and give the command again, or give --cancel", v.address, v.id)
	}
	return state, v.interrupted(v.set(ctx, &hindsightv1.Move{Address: v.address, Complete: true}, ""))
}

// state makes the source write a snapshot and returns its state.
func (v *move) state(ctx context.Context) (*hindsightv1.ImportedState, error) {
	s, err := v.source.Model(v.id).Snapshot(ctx)
	return &hindsightv1.ImportedState{Sequence: s.GetSequence(), StateDigest: s.GetStateDigest()}, err
}

// ready refuses a move that the other server would refuse, while the model still takes
// observations.
func (v *move) ready(ctx context.Context, m *hindsightv1.Model) error {
	there, err := v.validate(ctx, m)
	if err == nil && there.GetCreateTime() != nil {
		err = fmt.Errorf("it has a model %s", v.id)
	}
	if err != nil {
		return fmt.Errorf("the server at %s cannot take the model: %w", v.address, err)
	}
	return nil
}

// validate asks the other server whether it could create the model.
func (v *move) validate(ctx context.Context, m *hindsightv1.Model) (*hindsightv1.Model, error) {
	return v.target.Create(ctx, &hindsightv1.CreateModelRequest{Id: v.id, Spec: m.GetSpec(), ValidateOnly: true})
}

// set changes where the source says that the model is.
func (v *move) set(ctx context.Context, to *hindsightv1.Move, etag string) error {
	_, err := v.source.Model(v.id).Update(ctx, &hindsightv1.UpdateModelRequest{
		Model: &hindsightv1.Model{Move: to, Etag: etag}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"move"}},
	})
	return err
}

// copy streams the model from one server to the other.
func (v *move) copy(ctx context.Context) (*hindsightv1.Model, error) {
	read, write := io.Pipe()
	exported := make(chan error, 1)
	go func() {
		_, err := v.source.Model(v.id).Export(ctx, write, nil)
		exported <- err
		_ = write.CloseWithError(err) // It returns no error.
	}()
	m, err := v.target.Model(v.id).Import(ctx, read)
	_ = read.Close() // It ends the export and returns no error.
	exportErr := <-exported
	if errors.Is(err, client.ErrModelExists) {
		// The answer of an earlier import of this move may have been lost.
		if there, getErr := v.target.Model(v.id).Get(ctx); getErr == nil {
			return there, nil
		}
	}
	if err != nil && exportErr != nil && !errors.Is(exportErr, io.ErrClosedPipe) {
		err = exportErr
	}
	return m, err
}

// refused tells whether an error says that the server did not take the model.
func refused(err error) bool {
	for _, family := range []error{
		client.ErrInvalid, client.ErrExhausted, client.ErrExists, client.ErrUnimplemented, client.ErrPermissionDenied, client.ErrUnauthenticated,
	} {
		if errors.Is(err, family) {
			return true
		}
	}
	return false
}

// interrupted adds to an error how to go on with the move.
func (v *move) interrupted(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the move of %s is not complete; to go on, give the command again: %w", v.id, err)
}

// same tells whether a model was imported with a state.
func same(imported, state *hindsightv1.ImportedState) bool {
	return imported != nil && imported.GetSequence() == state.GetSequence() && imported.GetStateDigest() == state.GetStateDigest()
}

// cancelMove ends a move unless the other server has the model.
func (e *env) cancelMove(ctx context.Context, source *client.Client, m *hindsightv1.Model) error {
	if m.GetMove() == nil {
		return command.Usagef("%s is not being moved", m.GetId())
	}
	err := e.withMove(source, m, m.GetMove().GetAddress(), func(v *move) error { return v.cancel(ctx, m) })
	if err != nil {
		return err
	}
	canceled := struct {
		Model    string `json:"model"`
		Canceled bool   `json:"canceled"`
	}{m.GetId(), true}
	return e.emit(canceled, func(w *command.Page) { w.Printf("%s takes observations here again\n", m.GetId()) })
}

func (v *move) cancel(ctx context.Context, m *hindsightv1.Model) error {
	state, err := v.state(ctx)
	if err != nil {
		return err
	}
	there, err := v.target.Model(v.id).Get(ctx)
	switch {
	case err == nil && same(there.GetImported(), state):
		return fmt.Errorf("the server at %s has the model, and may have learned more: delete it there first, or give --to %[1]s", v.address)
	case errors.Is(err, client.ErrModelNotFound):
		// A server whose disk failed during the import may have the model after its next start.
		if _, err = v.validate(ctx, m); !errors.Is(err, client.ErrUnavailable) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("it is not known whether the server at %s has the model: %w", v.address, err)
	}
	return v.set(ctx, nil, m.GetEtag())
}
