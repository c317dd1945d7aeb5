package main_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/internal/engine/record"
	"hindsight/internal/engine/recovery"
	"hindsight/internal/engine/storage"
	"hindsight/internal/model/catalog"
	"hindsight/internal/model/snapshot"
	"hindsight/internal/store"
)

// wronged is the model whose stored bits are flipped. No client of the load calls it.
const wronged = "wronged"

// A server whose copy of a model has a wrong bit becomes the owner: in the state, the account, the answer of an id, the id
// of a waiting prediction or the metadata. The checks find it, the server hands the ownership on and fetches the store of
// the majority. No label is lost or learned twice meanwhile, and every retry has its first answer.
func TestAWrongOwner(t *testing.T) {
	endToEnd(t)
	t.Parallel()
	flip := map[string]func(t *testing.T, m storage.Model, e storage.RegistryEntry) error{
		"a bit of the state":   flipSnapshot(func(s *snapshot.Snapshot) []byte { return s.Learner }),
		"a bit of the account": flipSnapshot(func(s *snapshot.Snapshot) []byte { return s.Account }),
		"a bit of an answer": func(t *testing.T, m storage.Model, _ storage.RegistryEntry) error {
			t.Helper()
			var flipped storage.ID
			err := m.EachID(t.Context(), func(id storage.ID) error {
				if id.ID == "o-3" {
					flipped = storage.ID{ID: id.ID, At: id.At, Value: slices.Clone(id.Value)}
				}
				return nil
			})
			if err != nil {
				return err
			}
			flipped.Value[len(flipped.Value)-1] ^= 1
			return m.PutIDs(t.Context(), []storage.ID{flipped})
		},
		"a bit of the id of a waiting prediction": func(t *testing.T, m storage.Model, _ storage.RegistryEntry) error {
			t.Helper()
			p, ok, err := m.GetPending("waits")
			if err != nil || !ok {
				return fmt.Errorf("found %v, %w", ok, err)
			}
			p.ID = "waitr"
			return errors.Join(m.RemovePending([]string{"waits"}), m.PutPending([]storage.Prediction{p}))
		},
		"a bit of the metadata": func(t *testing.T, m storage.Model, e storage.RegistryEntry) error {
			t.Helper()
			value, err := record.DecodeRegistryValue(e.Value)
			if err != nil {
				return err
			}
			value.DisplayName = "Wronged"
			return m.SetValue(t.Context(), value.Encode())
		},
	}
	f := newFleet(t, uint64(time.Now().UnixNano()), 3, 1)
	f.flipped = true
	first := f.wrong()
	f.load(2, f.models)
	for what, change := range flip {
		t.Log(what)
		wrong := f.owner()
		f.wronging(wrong, change)
		f.righted(wrong, first)
	}
	f.rightAtEach(f.members, first)
	f.report(f.finish())
}

// A cold owner has a wrong bit of a state. The other servers replay the snapshot that the owner sends, and notice the bit.
func TestAWrongColdOwner(t *testing.T) {
	endToEnd(t)
	t.Parallel()
	f := newFleet(t, uint64(time.Now().UnixNano()), 3, 1, "--cluster-standby", "cold")
	f.flipped = true
	first := f.wrong()
	f.snapshot()
	first = append(first, f.observeWronged(len(first), 41)...) // No server applies the snapshot again.
	f.load(2, f.models)
	wrong := f.owner()
	f.wronging(wrong, flipSnapshot(func(s *snapshot.Snapshot) []byte { return s.Learner }))
	first = append(first, f.observeWronged(len(first), 60)...)
	f.snapshot()
	f.other(wrong).process.logged(t, "a snapshot of the owner differs", 1)
	f.righted(wrong, first)
	f.rightAtEach(f.members, first)
	f.report(f.finish())
}

// snapshot lets the owner write a snapshot of the wronged model.
func (f *fleet) snapshot() {
	f.t.Helper()
	f.insist(func(ctx context.Context, owner *process) error {
		_, err := owner.models.SnapshotModel(ctx, &hindsightv1.SnapshotModelRequest{Model: wronged})
		return err
	})
}

// wronging changes the wronged model of a server that does not run meanwhile, and makes the server the owner.
func (f *fleet) wronging(wrong *member, change func(*testing.T, storage.Model, storage.RegistryEntry) error) {
	f.t.Helper()
	f.terminate(wrong)
	local, err := store.Open(wrong.dir, store.Options{Member: true})
	require.NoError(f.t, err)
	err = local.Models(f.t.Context(), func(e storage.RegistryEntry) error {
		if e.Name != wronged {
			return nil
		}
		return change(f.t, e.Model, e)
	})
	require.NoError(f.t, errors.Join(err, local.Sync(context.WithoutCancel(f.t.Context())), local.Close()))
	f.start(wrong)
	f.awaitVoters()
	f.moveTo(0, wrong)
}

// righted waits until a wrong owner has the store of the majority, and checks its answers as the owner.
func (f *fleet) righted(wrong *member, first []*hindsightv1.Outcome) {
	t := f.t
	t.Helper()
	wrong.process.logged(t, "the owner hands the ownership on", 1)
	wrong.process.logged(t, "this server fetches the owner's store", 1)
	wrong.process.logged(t, "a checkpoint has arrived", 1)
	f.awaitVoters()
	assert.True(t, f.owner() != wrong, "the wrong server still owns the models")
	f.unwronged(first)
	f.rightAtEach([]*member{wrong}, first)
}

// rightAtEach makes each server the owner, and checks its answers.
func (f *fleet) rightAtEach(members []*member, first []*hindsightv1.Outcome) {
	f.t.Helper()
	for _, m := range members {
		eventually(f.t, fmt.Sprintf("server %d owns the models", m.number), func() bool {
			if f.owner() == m {
				return true
			}
			f.moveTo(0, m)
			f.awaitVoters()
			return false
		})
		f.unwronged(first)
	}
}

// wrong creates the wronged model, and returns the answers of its observations.
func (f *fleet) wrong() (first []*hindsightv1.Outcome) {
	f.t.Helper()
	f.insist(func(ctx context.Context, owner *process) error {
		_, err := owner.models.CreateModel(ctx, &hindsightv1.CreateModelRequest{
			Id: wronged, DisplayName: wronged,
			Spec: &hindsightv1.ModelSpec{Dimension: 2, Learner: &hindsightv1.ModelSpec_PkawvTaylor{PkawvTaylor: &hindsightv1.PkawvTaylor{Degree: proto.Int32(2)}}},
		})
		if status.Code(err) == codes.AlreadyExists {
			err = nil
		}
		return err
	})
	first = f.observeWronged(0, 40)
	f.insist(func(ctx context.Context, owner *process) error {
		_, err := owner.predictor.Predict(ctx, &hindsightv1.PredictRequest{Model: wronged, Features: []float64{1, 2}, PredictionId: "waits"})
		if status.Code(err) == codes.AlreadyExists {
			err = nil
		}
		return err
	})
	return first
}

// observeWronged lets the wronged model learn observations.
func (f *fleet) observeWronged(from, to int) (answers []*hindsightv1.Outcome) {
	f.t.Helper()
	for n := from; n < to; n++ {
		f.insist(func(ctx context.Context, owner *process) error {
			answer, err := owner.predictor.Observe(ctx, wrongedObservation(n))
			if err == nil {
				answers = append(answers, answer.GetOutcome())
			}
			return err
		})
	}
	return answers
}

func wrongedObservation(n int) *hindsightv1.ObserveRequest {
	return &hindsightv1.ObserveRequest{
		Model: wronged, Features: []float64{float64(n % 7), float64(n % 3)}, ObservationId: fmt.Sprint("o-", n),
		Target: &hindsightv1.ObserveRequest_Label{Label: float64(n)},
	}
}

// insist makes a call at the owner until it succeeds.
func (f *fleet) insist(call func(ctx context.Context, owner *process) error) {
	f.t.Helper()
	eventually(f.t, "a call succeeds", func() bool {
		owner := f.owner().process
		ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Second)
		defer cancel()
		err := call(ctx, owner)
		if err != nil && status.Code(err) != codes.Unavailable && status.Code(err) != codes.DeadlineExceeded {
			f.t.Fatal(err)
		}
		return err == nil
	})
}

// unwronged checks that the owner answers for the wronged model as before the flip.
func (f *fleet) unwronged(first []*hindsightv1.Outcome) {
	f.t.Helper()
	for n, want := range first {
		f.insist(func(ctx context.Context, owner *process) error {
			answer, err := owner.predictor.Observe(ctx, wrongedObservation(n))
			got := answer.GetOutcome()
			if err == nil && (!got.GetDuplicate() || got.GetSequence() != want.GetSequence() || answerOf(got) != answerOf(want)) {
				f.t.Errorf("observation %d again: %v, want %v", n, got, want)
			}
			return err
		})
	}
	f.insist(func(ctx context.Context, owner *process) error {
		m, err := owner.models.GetModel(ctx, &hindsightv1.GetModelRequest{Model: wronged})
		if err == nil && (m.GetModel().GetDisplayName() != wronged || m.GetModel().GetSequence() != uint64(len(first))) {
			f.t.Errorf("the model is %v", m)
		}
		return err
	})
}

// flipSnapshot flips a bit of a part of the newest snapshot that leaves the snapshot readable.
func flipSnapshot(part func(*snapshot.Snapshot) []byte) func(*testing.T, storage.Model, storage.RegistryEntry) error {
	return func(t *testing.T, m storage.Model, e storage.RegistryEntry) error {
		t.Helper()
		source, _, err := recovery.DecodeRegistryEntry(e, catalog.New)
		if err != nil {
			return err
		}
		sequences, err := m.Snapshots()
		if err != nil || len(sequences) == 0 {
			return fmt.Errorf("snapshots %v, %w", sequences, err)
		}
		data, err := m.ReadSnapshot(sequences[0])
		if err != nil {
			return err
		}
		for at := 1; ; at++ {
			s, err := snapshot.Decode(slices.Clone(data))
			if err != nil {
				return err
			}
			bytes := part(&s)
			bytes[len(bytes)-at] ^= 1
			s.Digest = snapshot.Digest(s.Learner)
			flipped, err := snapshot.Encode(s)
			if err = errors.Join(err, m.WriteSnapshot(s.Sequence, flipped)); err != nil {
				return err
			}
			if _, err := source.Restore(s.Sequence); err == nil {
				return nil
			}
		}
	}
}
