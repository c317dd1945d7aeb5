package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"

	"hindsight/client"
)

// calling calls do with a client of a server that predicts the number of labels so far.
func calling(do func(context.Context, *client.Client) error) {
	var listen net.ListenConfig
	l, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer (&fake{}).start(l)()
	c, err := client.Dial(l.Addr().String())
	if err == nil {
		err = errors.Join(do(context.Background(), c), c.Close())
	}
	if err != nil {
		panic(err)
	}
}

// Predict, act, and observe what happened.
func Example() {
	calling(func(ctx context.Context, c *client.Client) error {
		m := c.Model("energy")
		p, err := m.Predict(ctx, client.Features(0.1, -0.4))
		if err != nil {
			return err
		}
		o, err := m.Observe(ctx, client.ByPrediction(p.GetPredictionId(), client.Label(2.5)))
		if err != nil {
			return err
		}
		fmt.Println("predicted", p.GetValue(), "learned", o.GetSequence())
		return nil
	})
	// Output: predicted 0 learned 1
}

// A label that comes after the server has forgotten the prediction is learned by its
// input. Errors compare by reason.
func ExampleError() {
	calling(func(ctx context.Context, c *client.Client) error {
		m := c.Model("energy")
		_, err := m.Observe(ctx, client.ByPrediction("order-7", client.Label(1)))
		var rejected *client.Error
		if errors.Is(err, client.ErrPredictionNotFound) && errors.As(err, &rejected) {
			fmt.Println(rejected.Reason)
		}
		o, err := m.Observe(ctx, client.Observation{Prediction: "order-7", Input: client.Features(3), Target: client.Label(1)})
		if err != nil {
			return err
		}
		fmt.Println("learned", o.GetSequence())
		return nil
	})
	// Output:
	// PREDICTION_NOT_FOUND
	// learned 1
}
