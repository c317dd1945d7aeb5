// Service decides whether a connection waits for a late bus.
//
//	bin/hindsight-server --data-dir /tmp/hindsight &
//	go run ./examples/service 127.0.0.1:8080 journal.jsonl localhost:50051
//
//	curl localhost:8080/departures --json '{"trip": "7", "inputs": {"at": "2026-01-05T06:15:00Z", "city": "Oslo", "rain": false, "temp": 6}}'
//	curl localhost:8080/arrivals --json '{"trip": "7", "delay": 4}'
//
// A departure is answered within a second, also without a forecast: then nobody waits. An arrival
// is answered once it is on disk. It is learned once, whatever stops meanwhile: the journal
// remembers what is not learned yet, and every call has the trip as its id.
// The file service.py is the same in Python.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
)

// most is how many minutes late a bus may be that the connection waits for, in 19 of 20 cases: a
// tenth of the labels is outside of the interval, half of them above.
const most = 9

const spec = `{
	"inputs": [{"name": "at", "time": {}}, {"name": "city", "categorical": {}}, {"name": "rain", "boolean": {}}, {"name": "temp", "numeric": {}}],
	"label": {"min": 0}
}`

// trip is a row, in your service of a table of your database, and an event of the journal.
type trip struct {
	ID       string         `json:"trip"`
	Inputs   map[string]any `json:"inputs,omitempty"`
	Decision *decision      `json:"decision,omitempty"`
	Delay    *float64       `json:"delay,omitempty"`
	Settled  bool           `json:"settled,omitempty"`
}

type decision struct {
	Wait     bool     `json:"wait"`
	Expected *float64 `json:"expected"`
	AtMost   *float64 `json:"at_most"`
}

type service struct {
	model   *client.Model
	arrived *sync.Cond // Somebody waits until toLearn has a trip.

	mu      sync.Mutex // Guards what follows.
	toLearn []string
	trips   map[string]trip
	journal *os.File
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: service HOST:PORT JOURNAL SERVER")
	}
	if err := serve(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, address, journal, server string) error {
	c, err := client.Dial(server)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // it has no calls in flight
	s := &service{model: c.Model("connections"), trips: map[string]trip{}}
	s.arrived = sync.NewCond(&s.mu)
	if err := s.open(journal); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	log.Print("serving ", listener.Addr())
	failed := make(chan error, 1)
	go func() { failed <- s.learn(ctx) }()
	routes := http.NewServeMux()
	routes.HandleFunc("POST /departures", handle(s.departure))
	routes.HandleFunc("POST /arrivals", handle(s.arrival))
	routes.HandleFunc("GET /healthz", handle(s.health))
	h := &http.Server{Handler: routes, ReadTimeout: 10 * time.Second}
	go func() { failed <- h.Serve(listener) }()
	return <-failed
}

// open reads the journal. A last line that was cut off had no answer, and goes.
func (s *service) open(name string) (err error) {
	if s.journal, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil { //nolint:gosec // the operator names the file
		return err
	}
	whole := int64(0)
	for r := bufio.NewReader(s.journal); ; {
		line, err := r.ReadBytes('\n')
		if err != nil {
			break
		}
		var event trip
		if err := json.Unmarshal(line, &event); err != nil {
			return fmt.Errorf("%s: at byte %d: %w", name, whole, err)
		}
		s.apply(event)
		whole += int64(len(line))
	}
	for id, t := range s.trips {
		if t.Delay != nil && !t.Settled {
			s.toLearn = append(s.toLearn, id)
		}
	}
	return s.journal.Truncate(whole)
}

func (s *service) apply(event trip) {
	t := s.trips[event.ID]
	t.ID, t.Settled = event.ID, t.Settled || event.Settled
	if event.Decision != nil {
		t.Inputs, t.Decision = event.Inputs, event.Decision
	}
	if event.Delay != nil {
		t.Delay = event.Delay
	}
	s.trips[event.ID] = t
}

// write makes an event durable, then true. The caller holds mu.
func (s *service) write(event trip) error {
	line, err := json.Marshal(event)
	if err != nil {
		return err
	}
	if _, err := s.journal.Write(append(line, '\n')); err != nil {
		return err
	}
	if err := s.journal.Sync(); err != nil {
		return err
	}
	s.apply(event)
	return nil
}

func (s *service) find(id string) (trip, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.trips[id]
	return t, ok
}

// departure predicts, decides, and remembers the decision. A repeated request has the same answer.
func (s *service) departure(ctx context.Context, event trip) (any, error) {
	if t, ok := s.find(event.ID); ok {
		return t.Decision, nil
	}
	d, err := s.decide(ctx, event)
	if err != nil {
		return nil, refusal{http.StatusBadRequest, err.Error()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.trips[event.ID]; !ok { // The same request, come twice, may be faster.
		err = s.write(trip{ID: event.ID, Inputs: event.Inputs, Decision: d})
	}
	return s.trips[event.ID].Decision, err
}

// decide returns an error if the inputs are wrong, and no forecast if the server does not answer.
func (s *service) decide(ctx context.Context, event trip) (*decision, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	p, err := s.model.Predict(ctx, client.Inputs(event.Inputs), client.PredictionID(event.ID))
	switch {
	case errors.Is(err, client.ErrInvalid):
		return nil, err
	case err != nil:
		log.Printf("trip %s: no forecast: %v", event.ID, err)
		return new(decision), nil
	}
	d := &decision{Expected: p.Value}
	if levels := p.GetIntervals(); len(levels) > 0 { // Absent until the model knows its errors.
		upper := levels[0].GetUpper()
		d.AtMost, d.Wait = &upper, upper <= most
	}
	return d, nil
}

// arrival accepts a label. It is learned as soon as the server takes it.
func (s *service) arrival(_ context.Context, event trip) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.trips[event.ID]
	switch {
	case event.Delay == nil:
		return nil, refusal{http.StatusBadRequest, "delay: absent, want a number of minutes"}
	case !ok:
		return nil, refusal{http.StatusNotFound, "trip " + event.ID + " has not departed"}
	case t.Delay != nil && *t.Delay != *event.Delay:
		return nil, refusal{http.StatusConflict, fmt.Sprintf("trip %s has arrived %v late already, not %v", event.ID, *t.Delay, *event.Delay)}
	case t.Delay == nil:
		if err := s.write(trip{ID: event.ID, Delay: event.Delay}); err != nil {
			return nil, err
		}
		s.toLearn = append(s.toLearn, event.ID)
		s.arrived.Signal()
	}
	return struct{}{}, nil
}

func (s *service) health(context.Context, trip) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	settled, waiting := 0, 0
	for _, t := range s.trips {
		if t.Settled {
			settled++
		} else if t.Delay != nil {
			waiting++
		}
	}
	return map[string]int{"trips": len(s.trips), "settled": settled, "to_learn": waiting}, nil
}

// refusal is a request that this service refuses, with a status of HTTP.
type refusal struct {
	status int
	reason string
}

func (r refusal) Error() string { return r.reason }

func handle(h func(context.Context, trip) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var event trip
		var content any
		err := json.NewDecoder(r.Body).Decode(&event)
		if err != nil && r.Method == http.MethodPost {
			err = refusal{http.StatusBadRequest, err.Error()}
		} else {
			content, err = h(r.Context(), event)
		}
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			var wrong refusal
			if !errors.As(err, &wrong) {
				wrong.status = http.StatusInternalServerError
			}
			w.WriteHeader(wrong.status)
			content = map[string]string{"error": err.Error()}
		}
		_ = json.NewEncoder(w).Encode(content) // A caller that is gone repeats the request.
	}
}

// learn takes every label to the server, for as long as it takes.
func (s *service) learn(ctx context.Context) error {
	declared := new(hindsightv1.ModelSpec)
	if err := protojson.Unmarshal([]byte(spec), declared); err != nil {
		return err
	}
	insist(func() error { _, err := s.model.Create(ctx, declared); return err })
	for {
		t := s.next()
		insist(func() error {
			// The client sends the inputs if the server was down at the departure, or has forgotten it.
			_, err := s.model.Observe(ctx, client.Observation{Prediction: t.ID, Input: client.Inputs(t.Inputs), Target: client.Label(*t.Delay)})
			return err
		})
		s.mu.Lock()
		err := s.write(trip{ID: t.ID, Settled: true})
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// next waits for a trip that has arrived.
func (s *service) next() trip {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.toLearn) == 0 {
		s.arrived.Wait()
	}
	t := s.trips[s.toLearn[0]]
	s.toLearn = s.toLearn[1:]
	return t
}

// insist repeats a call until the server takes it, or finds its content wrong.
func insist(call func() error) {
	for {
		err := call()
		switch {
		case err == nil:
			return
		case errors.Is(err, client.ErrInvalid), errors.Is(err, client.ErrExists):
			log.Printf("refused: %v", err) // In your service: tell somebody.
			return
		}
		log.Printf("again soon: %v", err)
		time.Sleep(rand.N(2 * time.Second)) //nolint:gosec // the wait before a retry is no secret
	}
}
