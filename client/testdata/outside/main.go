// Outside is a program of another module: it learns y = 3a - 2b online.
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"os"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
	"hindsight/client"
)

func main() {
	if err := learn(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func learn(ctx context.Context, address string) error {
	c, err := client.Dial(address)
	if err != nil {
		return err
	}
	defer c.Close()
	m := c.Model("linear")
	if _, err := m.Create(ctx, &hindsightv1.ModelSpec{Dimension: 2}); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(1, 1))
	for t := 1; t <= 200; t++ {
		a, b := random.Float64(), random.Float64()
		p, err := m.Predict(ctx, &hindsightv1.PredictRequest{Features: []float64{a, b}})
		if err != nil {
			return err
		}
		o, err := m.Observe(ctx, &hindsightv1.ObserveRequest{PredictionId: p.GetPredictionId(), Target: client.Label(3*a - 2*b)})
		if err != nil {
			return err
		}
		if t%50 == 0 {
			fmt.Printf("round %d: predicted %.3f, loss %.5f, skill %.3f\n", t, p.GetValue(), o.GetLoss(), o.GetRecentSkill())
		}
	}
	return nil
}
