package cli

import (
	"context"
	"errors"
	"io"
	"time"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
	"hindsight/cmd/client/internal/drive"
	"hindsight/cmd/client/internal/stream"
	"hindsight/cmd/internal/child"
	"hindsight/cmd/internal/command"
)

const (
	demoModel     = "demo"
	demoRounds    = 4000
	demoMaxRounds = 100_000
	demoTime      = 30 * time.Second
	demoWhole     = 60 * time.Second
	demoDimension = 2
	demoTick      = 50 * time.Millisecond // between rounds after the stream
	demoLines     = 10                    // of the table of skill and regret
)

func (e *env) demo() verb {
	d := &demo{}
	return verb{
		use:   "demo",
		short: "Start a server, stream a changing environment through it, show how well the model does",
		long: `Start a server on free ports of 127.0.0.1 with a temporary directory. Stream a
drifting environment through a model that picks its
learner itself. Show its figures, and how its served skill and its regret went. Stop the server. With --keep leave it running until an interrupt: another environment
follows, some twenty rounds a second, so that its page moves.

The stream ends after --rounds rounds or after the time --for, whichever is first.

With --servers the demo starts a cluster on this machine, and sends the stream to all
servers in turn. After a third of the time it kills the owner, the server that orders all
changes, and restarts it once another server owns. In the end it reports how long the
cluster acknowledged no observation, whether an acknowledged observation was lost or learned
twice, and whether all servers have the same state.`,
		flags: func(f *flagSet) {
			f.StringVar(&d.server, "server", "", serverUsage)
			f.IntVar(&d.rounds, "rounds", demoRounds, "number of rounds")
			f.Uint64Var(&d.seed, "seed", 1, "seed of the stream")
			f.DurationVar(&d.limit, "for", demoTime, "longest time of the stream")
			f.IntVar(&d.servers, "servers", 1, "number of servers; 3 or 5 servers form a cluster, and the demo kills its owner")
			f.BoolVar(&d.keep, "keep", false, "leave the server running and learning after the stream, until an interrupt")
		},
		before: func(c *call) (err error) {
			if d.server, err = findServer(d.server); err != nil {
				return err
			}
			if d.rounds < 1 || d.rounds > demoMaxRounds {
				return command.Usagef("--rounds %d is not in 1..%d", d.rounds, demoMaxRounds)
			}
			if d.limit <= 0 {
				return command.Usagef("--for must be positive, not %v", d.limit)
			}
			if d.servers == 1 {
				return d.run(c.ctx(), e)
			}
			if d.servers != 3 && d.servers != 5 || d.keep {
				return command.Usagef("--servers %d: want 1, 3 or 5, and --keep only with 1", d.servers)
			}
			return d.runCluster(c.ctx(), e)
		},
	}
}

type demo struct {
	server  string
	servers int
	rounds  int
	seed    uint64
	limit   time.Duration
	keep    bool
}

type demoSummary struct {
	*summary
	PageURL string `json:"pageUrl"`

	progress []demoProgress
}

type demoProgress struct {
	round         int
	skill, regret *float64
}

func (d *demo) run(ctx context.Context, e *env) error {
	whole, cancel := context.WithTimeout(ctx, demoWhole)
	defer cancel()
	e.Say("starting %s", d.server)
	var failed error // of the stream; its answer is written all the same
	err := child.Serve(whole, d.server, func(server *child.Server) error {
		e.Say("its page, which moves now: http://%s/", server.HTTP)
		e.Say("serving gRPC at %s and metrics at http://%s/metrics", server.GRPC, server.HTTP)
		var s *demoSummary
		s, failed = d.stream(whole, e, server)
		if s == nil {
			return nil // Failed is reported.
		}
		err := e.emit(s, func(w *command.Page) { s.write(w, d.keep) })
		if err != nil || !d.keep || failed != nil {
			return err
		}
		e.Say("the model learns on: %s; an interrupt ends it", s.PageURL)
		return d.learnOn(ctx, e, server)
	})
	if err == nil {
		e.Say("the server has stopped, its directory is removed")
	}
	return errors.Join(failed, err)
}

// slowly yields the rounds of another environment, until stopped ends.
type slowly struct {
	*stream.Drifting
	stopped <-chan struct{}
}

// Next implements drive.Source.
func (s slowly) Next() (stream.Round, error) {
	select {
	case <-s.stopped:
		return stream.Round{}, io.EOF
	case <-time.After(demoTick):
		return s.Drifting.Next()
	}
}

// learnOn takes another environment through the model, slowly, until ctx ends.
func (d *demo) learnOn(ctx context.Context, e *env, server *child.Server) error {
	c, err := dialChild(server.GRPC, e.Timeout)
	if err != nil {
		return err
	}
	source := slowly{stream.NewDrifting(demoMaxRounds, demoDimension, d.seed+1), ctx.Done()}
	if _, err = drive.Run(context.WithoutCancel(ctx), c, demoModel, source, drive.Options{Run: "on"}); err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, c.Close())
}

func (d *demo) stream(ctx context.Context, e *env, server *child.Server) (*demoSummary, error) {
	source := stream.NewDrifting(d.rounds, demoDimension, d.seed)
	c, err := dialChild(server.GRPC, e.Timeout)
	if err != nil {
		return nil, err
	}
	s, err := d.take(ctx, e, c, source)
	if s != nil {
		s.PageURL = "http://" + server.HTTP + "/"
	}
	return s, errors.Join(err, c.Close())
}

// take creates the model and streams until the end or the time limit.
func (d *demo) take(ctx context.Context, e *env, c *client.Client, source *stream.Drifting) (*demoSummary, error) {
	if err := startModel(ctx, c, demoModel, &hindsightv1.ModelSpec{}, demoDimension, 1); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, d.limit)
	defer cancel()
	var progress []demoProgress
	r := &rounds{
		model: demoModel, run: "demo", retries: defaultRetries, once: true,
		title: "a drifting function", total: source.Len(),
		observed: func(o drive.Observed) {
			if o.T%max(1, d.rounds/demoLines) == 0 {
				progress = append(progress, demoProgress{o.T, o.Outcome.RecentSkill, o.Outcome.Regret}) //nolint:protogetter // Nil where absent.
			}
		},
	}
	s, err := r.measure(limited, e, c, source)
	if s == nil {
		return nil, err
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && s.Acknowledged > 0 {
		s.Error, err = nil, nil // --for has passed.
	}
	return &demoSummary{summary: s, progress: progress}, err
}

// write shows the table, and how skill and regret went.
func (s *demoSummary) write(w *command.Page, running bool) {
	s.summary.write(w)
	w.Printf("\nserved skill over the last 1000 rounds: 1 is perfect, 0 is trivial;\n")
	w.Printf("prequential regret against the best expert in hindsight\n\nround\tskill\tregret\n")
	for _, p := range s.progress {
		w.Cells(p.round, command.Optional(p.skill, digits3), command.Optional(p.regret, digits3))
	}
	if !running {
		w.Printf("\nits page was %s; --keep leaves the server running\n", s.PageURL)
	}
}
