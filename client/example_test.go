package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"

	"google.golang.org/grpc"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
)

// example starts a server for an example: it predicts the number of labels so far.
func example() (address string, stop func()) {
	var listen net.ListenConfig
	l, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	f := &fake{waiting: make(map[string]bool), learned: make(map[string]*hindsightv1.Outcome)}
	s := grpc.NewServer()
	hindsightv1.RegisterModelServiceServer(s, f)
	hindsightv1.RegisterPredictionServiceServer(s, f)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	return l.Addr().String(), func() { s.Stop(); <-done }
}

// Predict, act, and observe what happened.
func Example() {
	ctx := context.Background()
	address, stop := example()
	defer stop()
	c, err := client.Dial(address)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // the example is over
	m := c.Model("energy")
	p, err := m.Predict(ctx, client.Features(0.1, -0.4))
	if err != nil {
		log.Fatal(err)
	}
	o, err := m.Observe(ctx, client.ByPrediction(p.GetPredictionId(), client.Label(2.5)))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("predicted", p.GetValue(), "learned", o.GetSequence())
	// Output: predicted 0 learned 1
}

// A session keeps many calls in flight.
func ExampleModel_Session() {
	ctx := context.Background()
	address, stop := example()
	defer stop()
	c, err := client.Dial(address)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // the example is over
	s := c.Model("energy").Session(ctx, 64)
	var outcomes []*client.Future[*hindsightv1.Outcome]
	for i := range 3 {
		x := client.Features(float64(i))
		outcomes = append(outcomes, s.Observe(ctx, client.ByInput(x, client.Label(1))))
	}
	for _, future := range outcomes {
		o, err := future.Wait(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("learned", o.GetSequence())
	}
	if err := s.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// learned 1
	// learned 2
	// learned 3
}

// A label that comes after the server has forgotten the prediction is learned by its
// input. Errors compare by reason.
func ExampleError() {
	ctx := context.Background()
	address, stop := example()
	defer stop()
	c, err := client.Dial(address)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // the example is over
	m := c.Model("energy")
	_, err = m.Observe(ctx, client.ByPrediction("order-7", client.Label(1)))
	var refused *client.Error
	if errors.Is(err, client.ErrPredictionNotFound) && errors.As(err, &refused) {
		fmt.Println(refused.Reason)
	}
	o, err := m.Observe(ctx, client.Observation{Prediction: "order-7", Input: client.Features(3), Target: client.Label(1)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("learned", o.GetSequence())
	// Output:
	// PREDICTION_NOT_FOUND
	// learned 1
}
