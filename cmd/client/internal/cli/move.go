package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/internal/command"
)

// newModelMove builds "model move".
func newModelMove(e *env) *cobra.Command {
	var to string
	var cancel bool
	cmd := &cobra.Command{
		Use:   "move ID --to ADDRESS",
		Short: "Move a model to another server, while both serve",
		Long: `Move a model to another server with all that it has learned, the ids that it
remembers and the predictions that wait for their labels. From the beginning of the
move the model takes no observations here, and calls are answered MODEL_MOVING, which
clients try again. When the other server has the model, which is then checked, they are
answered MODEL_MOVED with its address. Predictions without remember go on here.

If the command was interrupted, or a server was, give the same command again: it goes
on where the move was. --cancel ends a move that the other server does not have yet,
and the model takes observations here again. Give it when no move is running.

The model stays here until it is deleted. Aliases and followers stay here.`,
		Example: `  hindsight --address old:50051 model move energy --to new:50051
  hindsight --address old:50051 model delete energy --yes`,
		Args:              command.Exactly("ID"),
		ValidArgsFunction: e.completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cancel == (to != "") {
				return command.Usagef("give --to or --cancel")
			}
			return e.withClient(func(c *client.Client) error {
				m, err := c.Model(args[0]).Get(cmd.Context())
				if err != nil {
					return err
				}
				if cancel {
					return e.cancelMove(cmd.Context(), c, m)
				}
				return e.moveTo(cmd.Context(), c, m, to)
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the gRPC address of the other server, as clients reach it")
	cmd.Flags().BoolVar(&cancel, "cancel", false, "end a move that the other server does not have yet")
	return cmd
}

// move is a model on its way from one server to another.
type move struct {
	id, address      string
	source, target   *client.Client
	began, learnable time.Time
}

// movedModel is what the command tells of a move.
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
	target, err := e.dialTo(address)
	if err != nil {
		return err
	}
	v := &move{id: m.GetId(), address: address, source: source, target: target}
	state, err := v.run(ctx, m)
	if err = errors.Join(err, target.Close()); err != nil {
		return err
	}
	told := movedModel{
		Model: v.id, From: source.Address(), To: address, Sequence: state.GetSequence(), StateDigest: state.GetStateDigest(),
		Seconds: v.learnable.Sub(v.began).Seconds(),
	}
	return e.emit(told, func(w *command.Page) {
		w.Printf("moved %s to %s\n", v.id, address)
		w.Printf("observations\t%d\n", told.Sequence)
		w.Row("state digest", told.StateDigest)
		if told.Seconds > 0 {
			w.Printf("took no observations for\t%.3f s\n", told.Seconds)
		}
	})
}

// run does the steps of a move that are not done. At most one server takes observations
// after each of them.
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
		// With the etag it is this command alone that begins the move.
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

// state is what the source has of the model, which its last snapshot has too.
func (v *move) state(ctx context.Context) (*hindsightv1.ImportedState, error) {
	s, err := v.source.Model(v.id).Snapshot(ctx)
	return &hindsightv1.ImportedState{Sequence: s.GetSequence(), StateDigest: s.GetStateDigest()}, err
}

// ready refuses a move that the other server would refuse, before the model takes no
// more observations.
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
	_ = read.Close() // It returns no error, and ends the export.
	exportErr := <-exported
	if errors.Is(err, client.ErrModelExists) {
		// Of this move, maybe: a call whose answer was lost.
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

// interrupted says how a move goes on that is not complete.
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
	target, err := e.dialTo(m.GetMove().GetAddress())
	if err != nil {
		return err
	}
	v := &move{id: m.GetId(), address: m.GetMove().GetAddress(), source: source, target: target}
	err = errors.Join(v.cancel(ctx, m), target.Close())
	if err != nil {
		return err
	}
	told := struct {
		Model    string `json:"model"`
		Canceled bool   `json:"canceled"`
	}{v.id, true}
	return e.emit(told, func(w *command.Page) { w.Printf("%s takes observations here again\n", v.id) })
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
