// Package client calls a hindsight server: it learns online, makes predictions, and
// manages models.
//
//	c, err := client.Dial("localhost")
//	m := c.Model("energy")
//	p, err := m.Predict(ctx, &hindsightv1.PredictRequest{Features: []float64{0.1, -0.4}})
//	o, err := m.Observe(ctx, &hindsightv1.ObserveRequest{PredictionId: p.GetPredictionId(), Target: client.Label(2.5)})
//
// Every prediction and every observation has an id before its first try. A call
// without an answer is sent again under the same id, and the server learns it once; see
// Retry.
//
// An error of the server is an *Error, with a reason, and with the fields that are
// wrong. The function errors.Is compares it with the sentinels of this package.
//
// Requests and answers are messages of the API. The function structpb.NewStruct makes named inputs: a time is a text in
// RFC 3339, and a vector is a []any.
package client
