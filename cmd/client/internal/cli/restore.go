package cli

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/cmd/internal/command"
)

func (e *env) modelRestore() verb {
	var (
		request  = new(hindsightv1.RestoreModelRequest)
		sequence uint64
		at       string
		yes      bool
		undelete bool
	)
	return verb{
		use:   "restore ID --sequence N|--at TIME|--undelete",
		short: "Restore a model to an earlier sequence or time, or undelete a model",
		long: `Restore a model to the sequence of a snapshot, or to a later sequence or time
that the server's log still contains. The observations after it are lost for good, and
their ids are forgotten: they can be learned again. Export the model first to
keep both states. Without --yes the command says how many observations would be undone, and fails.

With --undelete undelete a model, as it was.`,
		example: `  hindsight model restore energy --sequence 12000 --yes
  hindsight model restore energy --at 2026-03-01T09:30:00Z --yes`,
		flags: func(f *flagSet) {
			f.Uint64Var(&sequence, "sequence", 0, "how many observations to keep")
			f.StringVar(&at, "at", "", "keep what was learned up to this time")
			f.BoolVar(&undelete, "undelete", false, "undelete the model")
			f.BoolVar(&yes, "yes", false, "undo the later observations")
		},
		before: func(c *call) error {
			given := 0
			for _, flag := range []string{"sequence", "at", "undelete"} {
				if c.given(flag) {
					given++
				}
			}
			switch {
			case given != 1 || c.given("undelete") && !undelete:
				return command.Usagef("want exactly one of --sequence, --at and --undelete (--sequence 0 undoes all observations)")
			case c.given("sequence"):
				request.Sequence = &sequence
			case c.given("at"):
				t, err := time.Parse(time.RFC3339Nano, at)
				if err != nil {
					return command.Usagef("--at: got %q, want a time such as 2026-03-01T09:30:00Z", at)
				}
				request.Time = timestamppb.New(t)
			}
			return nil
		},
		run: func(c *call) error {
			if undelete {
				return e.showModel(c.model().Undelete(c.ctx()))
			}
			if !yes {
				return unconfirmed(c, request)
			}
			answer, err := c.model().Restore(c.ctx(), request)
			if err != nil {
				return err
			}
			e.Say("%d observations of %s are undone", answer.GetUndone(), answer.GetModel().GetId())
			return e.showModel(answer.GetModel(), nil)
		},
	}
}

// unconfirmed returns an error that says what a restore would undo.
func unconfirmed(c *call, request *hindsightv1.RestoreModelRequest) error {
	answer, err := c.model().Restore(c.ctx(), &hindsightv1.RestoreModelRequest{
		Sequence: request.Sequence, Time: request.GetTime(), ValidateOnly: true,
	})
	if err != nil {
		return err
	}
	m := answer.GetModel()
	return command.Usagef("this undoes %d of %d observations of %s: give --yes", answer.GetUndone(), m.GetSequence(), m.GetId())
}
