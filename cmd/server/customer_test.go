package main_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// customer is one client.
type customer struct {
	*fleet
	number      int
	rng         *rand.Rand
	at          int      // The member that it asks.
	of          []string // The models of its calls.
	servers     []*member
	predictors  []hindsightv1.PredictionServiceClient
	models      []hindsightv1.ModelServiceClient
	connections []*grpc.ClientConn
}

func (f *fleet) customer(number int, of []string) *customer {
	f.t.Helper()
	c := &customer{fleet: f, number: number, of: of, servers: f.members, rng: rand.New(rand.NewPCG(f.seed, uint64(number)))}
	for _, m := range f.members {
		connection, err := grpc.NewClient(m.clients, insecureTransport(), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 2, MaxDelay: 200 * time.Millisecond}, MinConnectTimeout: time.Second,
		}))
		if err != nil {
			f.t.Fatal(err)
		}
		c.connections = append(c.connections, connection)
		c.predictors = append(c.predictors, hindsightv1.NewPredictionServiceClient(connection))
		c.models = append(c.models, hindsightv1.NewModelServiceClient(connection))
	}
	c.at = number % len(f.members)
	return c
}

func (c *customer) close() {
	for _, connection := range c.connections {
		if err := connection.Close(); err != nil {
			c.t.Error(err)
		}
	}
}

// load makes calls by many clients until end is called. Each client calls all models of one element of shares in turn.
// Without shares it calls all models.
func (f *fleet) load(clients int, shares ...[]string) {
	if len(shares) == 0 {
		shares = [][]string{f.models}
	}
	for n := range clients {
		c := f.customer(n, shares[n%len(shares)])
		f.clients.Go(func() {
			defer c.close()
			pause := time.NewTicker(5 * time.Millisecond)
			defer pause.Stop()
			for k := 0; ; k++ {
				select {
				case <-f.stop:
					return
				case <-pause.C:
					c.act(k)
				}
			}
		})
	}
}

// end waits until clients have finished what they began. Calls are repeated for a minute.
func (f *fleet) end() {
	close(f.stop)
	f.giveUp.Store(f.since() + int64(time.Minute))
	f.clients.Wait()
}

// act makes one random call.
func (c *customer) act(n int) {
	model, id := c.of[c.rng.IntN(len(c.of))], fmt.Sprintf("%d-%d", c.number, n)
	x, r := draw(c.rng, model)
	r.Features, r.Inputs, r.ObservationId = x.features, x.inputs, id
	switch choice := c.rng.IntN(10); {
	case choice == 0:
		c.read(model, x, true)
	case choice == 1:
		c.read(model, x, false)
	case choice == 2:
		c.repeat()
	case choice == 3:
		batch := []*hindsightv1.ObserveRequest{r}
		for k := range 1 + c.rng.IntN(c.batch) {
			x, another := draw(c.rng, model)
			another.Features, another.Inputs, another.ObservationId = x.features, x.inputs, fmt.Sprint(id, "-", k)
			batch = append(batch, another)
		}
		c.observe(batch...)
	case choice == 4 && (c.rng.IntN(4) == 0 || model == advised):
		c.predict(r, x) // Its label never comes.
	case choice == 4:
		c.label(r, x)
	default:
		c.observe(r)
	}
}

// sends registers requests.
func (c *customer) sends(requests []*hindsightv1.ObserveRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range requests {
		c.mu.sent[name{r.GetModel(), r.GetObservationId()}] = r
	}
}

// try makes a call at the member that the client asks until it is answered. The call records its
// own attempts. After a failure the client asks another member. It returns the code of an error
// that another try does not change.
func (c *customer) try(call func(ctx context.Context, p hindsightv1.PredictionServiceClient) error) codes.Code {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		err := call(ctx, c.predictors[c.at])
		cancel()
		switch code := status.Code(err); code {
		case codes.OK:
			return code
		case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted, codes.Aborted:
			c.mu.Lock()
			c.odd[reasonOf(err)]++
			c.mu.Unlock()
		case codes.NotFound, codes.AlreadyExists:
			return code
		default:
			c.t.Errorf("%v", err)
			return code
		}
		if late := c.giveUp.Load(); late > 0 && c.since() > late {
			return status.Code(err)
		}
		c.at = c.rng.IntN(len(c.predictors))
		<-time.After(time.Duration(1+c.rng.IntN(20)) * time.Millisecond) // The client backs off.
	}
}

// resultOf is how an attempt has ended.
func resultOf(err error) result {
	switch {
	case err == nil:
		return acknowledged
	case reasonOf(err) == "NOT_OWNER", status.Code(err) == codes.ResourceExhausted, status.Code(err) == codes.NotFound:
		return rejected
	default:
		return unknown
	}
}

// answerOf is the part of an answer that a serial replay must give too.
func answerOf(o *hindsightv1.Outcome) string {
	return fmt.Sprintf("%x %q %x", o.GetPrediction(), o.GetClass(), o.GetLoss())
}

// attempted records the attempts of one call. A call ends when seen has its sequences: a current read that begins
// after the end demands them.
func (c *customer) attempted(from int64, model string, ids []string, outcomes []*hindsightv1.Outcome, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := attempt{client: c.number, model: model, from: from, until: c.since(), result: resultOf(err)}
	if a.result == unknown {
		a.until = never
	}
	for n, id := range ids {
		a.id = id
		if err == nil {
			a.sequence, a.duplicate, a.answer = outcomes[n].GetSequence(), outcomes[n].GetDuplicate(), answerOf(outcomes[n])
			c.mu.seen[model] = max(c.mu.seen[model], a.sequence)
		}
		c.mu.attempts = append(c.mu.attempts, a)
	}
}

// observe sends observations of one model, several as a batch.
func (c *customer) observe(requests ...*hindsightv1.ObserveRequest) {
	c.sends(requests)
	model := requests[0].GetModel()
	var ids []string
	for _, r := range requests {
		ids = append(ids, r.GetObservationId())
	}
	c.try(func(ctx context.Context, p hindsightv1.PredictionServiceClient) error {
		from := c.since()
		if len(requests) > 1 {
			answer, err := p.ObserveBatch(ctx, &hindsightv1.ObserveBatchRequest{Model: model, Observations: requests})
			c.attempted(from, model, ids, answer.GetOutcomes(), err)
			return err
		}
		answer, err := p.Observe(ctx, requests[0])
		c.attempted(from, model, ids, []*hindsightv1.Outcome{answer.GetOutcome()}, err)
		return err
	})
}

// predict asks for a prediction that the server remembers, and reports whether the call was acknowledged.
func (c *customer) predict(r *hindsightv1.ObserveRequest, x sample) (acknowledged bool) {
	asked, n := x.request(r.GetModel()), name{r.GetModel(), r.GetObservationId()}
	asked.PredictionId = n.id
	remember := func(acknowledged bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mu.predicted[n] = acknowledged
	}
	remember(false)
	code := c.try(func(ctx context.Context, p hindsightv1.PredictionServiceClient) error {
		_, err := p.Predict(ctx, asked)
		return err
	})
	acknowledged = code == codes.OK || code == codes.AlreadyExists // An earlier attempt has made the prediction.
	remember(acknowledged)
	return acknowledged
}

// label asks for a prediction and sends its label. If no server has acknowledged the prediction, label sends the features
// under the same id.
func (c *customer) label(r *hindsightv1.ObserveRequest, x sample) {
	id := r.GetObservationId()
	c.sends([]*hindsightv1.ObserveRequest{r})
	acknowledged := c.predict(r, x)
	byID := proto.CloneOf(r)
	byID.Features, byID.Inputs, byID.ObservationId, byID.PredictionId = nil, nil, "", id
	missing := c.try(func(ctx context.Context, p hindsightv1.PredictionServiceClient) error {
		from := c.since()
		answer, err := p.Observe(ctx, byID)
		c.attempted(from, r.GetModel(), []string{id}, []*hindsightv1.Outcome{answer.GetOutcome()}, err)
		return err
	})
	if missing == codes.NotFound {
		if acknowledged {
			c.t.Errorf("%s: the prediction %s was acknowledged and is not found", r.GetModel(), id)
		}
		c.observe(r)
	}
}

// repeat sends an observation again that was sent before, perhaps by another client.
func (c *customer) repeat() {
	c.mu.Lock()
	var r *hindsightv1.ObserveRequest
	for range 10 { // Most were acknowledged.
		if n := len(c.mu.attempts); n > 0 {
			a := c.mu.attempts[c.rng.IntN(n)]
			if a.result == acknowledged && slices.Contains(c.of, a.model) {
				r = c.mu.sent[name{a.model, a.id}]
				break
			}
		}
	}
	c.mu.Unlock()
	if r != nil {
		c.observe(r)
	}
}

// read asks for the sequence of a model. A current read demands every sequence that any client has seen.
func (c *customer) read(model string, x sample, current bool) {
	asked := x.request(model)
	asked.Remember = proto.Bool(false)
	s := sighting{client: c.number, model: model, current: current}
	got := c.try(func(ctx context.Context, p hindsightv1.PredictionServiceClient) error {
		s.process = c.process()
		c.mu.Lock()
		s.from = c.since() // A read that failed saw nothing.
		if current {
			asked.MinSequence = c.mu.seen[model]
		}
		c.mu.Unlock()
		if !current && c.rng.IntN(2) == 0 {
			answer, err := c.models[c.at].GetModel(ctx, &hindsightv1.GetModelRequest{Model: model})
			s.sequence = answer.GetModel().GetSequence()
			return err
		}
		answer, err := p.Predict(ctx, asked)
		s.sequence = answer.GetPrediction().GetStateSequence()
		return err
	})
	if got != codes.OK {
		return
	}
	if s.process != c.process() { // Another process may have answered.
		s.process = -c.number - 1
		return
	}
	if c.groups > 1 { // A server that is no member forwards the call.
		s.process = forwarded
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.until = c.since()
	c.mu.reads = append(c.mu.reads, s)
	if current { // A stale read of a process that forgets is no promise to others.
		c.mu.seen[model] = max(c.mu.seen[model], s.sequence)
	}
}

// process is the number of the process that the client asks, unique over restarts.
func (c *customer) process() int {
	m := c.servers[c.at]
	return m.number<<20 | int(m.life.Load())
}
