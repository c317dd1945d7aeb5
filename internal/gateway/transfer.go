package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/protobuf/proto"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

const (
	contentBytes = "application/octet-stream"
	pieceBytes   = 256 << 10
)

// export answers with the bytes of a model. An export that fails on its way aborts the
// connection, so that no client takes a part for the whole.
func (g *Gateway) export(w http.ResponseWriter, r *http.Request, c *call) error {
	s, end, err := g.begin(r, c)
	if err != nil {
		return err
	}
	defer end()
	request, _ := s.request.Interface().(*hindsightv1.ExportModelRequest)
	control, begun := http.NewResponseController(w), false
	s.send = func(m proto.Message) error {
		if !begun {
			begun = true
			header := w.Header()
			header.Set("Content-Type", contentBytes)
			header.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", request.GetModel()+".hindsight"))
			header.Set("Cache-Control", "no-store")
		}
		_ = control.SetWriteDeadline(g.Now().Add(writeTimeout)) // Only a writer of a test has none.
		piece, _ := m.(*hindsightv1.ExportModelResponse)
		_, err := w.Write(piece.GetChunk())
		return err
	}
	err = g.Server.Stream(c.name, s)
	if err != nil && begun {
		panic(http.ErrAbortHandler) // net/http aborts the connection.
	}
	return err
}

// importModel reads the body when the handler receives it: a rejected client holds no place by sending no body.
func (g *Gateway) importModel(w http.ResponseWriter, r *http.Request, c *call) error {
	s, end, err := g.begin(r, c)
	if err != nil {
		return err
	}
	defer end()
	if !isContent(r, contentBytes) {
		return wrongContent(r, contentBytes, "curl: -H 'Content-Type: application/octet-stream' --data-binary @FILE")
	}
	isLate := func() bool { return errors.Is(s.ctx.Err(), context.DeadlineExceeded) }
	defer context.AfterFunc(s.ctx, func() {
		if isLate() {
			expect(r, 0) // A read ends with the time of the call.
		}
	})()
	accepted := false
	s.further = func(m proto.Message) error {
		accepted = true
		expect(r, readTimeout)
		if isLate() { // Then readTimeout may have replaced the deadline that AfterFunc has set.
			return s.ctx.Err()
		}
		piece := make([]byte, pieceBytes)
		n, err := io.ReadFull(r.Body, piece)
		switch {
		case n > 0: // The next read returns the error.
			proto.Merge(m, &hindsightv1.ImportModelRequest{Chunk: piece[:n]})
			return nil
		case errors.Is(err, io.EOF):
			return io.EOF
		case isLate():
			return s.ctx.Err()
		}
		return g.incomplete(err)
	}
	var answer proto.Message
	s.send = func(m proto.Message) error {
		answer = m
		return nil
	}
	_ = http.NewResponseController(w).SetWriteDeadline(g.Now().Add(importTimeout)) // Only a writer of a test has none.
	if err := g.Server.Stream(c.name, s); err != nil {
		if !accepted {
			w.Header().Set("Connection", "close") // Or net/http waits for a short body before it answers.
		}
		return err
	}
	return writeMessage(w, answer)
}
