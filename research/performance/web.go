package performance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"

	"google.golang.org/protobuf/types/known/structpb"

	"hindsight/client"
	"hindsight/cmd/research/load"
)

// web makes calls of JSON over HTTP/1.1, with a connection for each caller. A call of http.Client passes through three
// goroutines, and takes the client half as much time again. On processors that clients and server share, that would
// count as the server's.
type web struct {
	address string
	idle    chan *connection
}

// connection is a connection of one caller at a time.
type connection struct {
	net.Conn

	answers *bufio.Reader
	request []byte
}

func newWeb(address string) *web { return &web{address, make(chan *connection, callers)} }

func (w *web) close() {
	for range len(w.idle) {
		_ = (<-w.idle).Close() // The server has answered all calls.
	}
}

// take returns an idle connection, or a new one.
func (w *web) take(ctx context.Context) (*connection, error) {
	select {
	case c := <-w.idle:
		return c, nil
	default:
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", w.address)
	if err != nil {
		return nil, fmt.Errorf("JSON: %w", err)
	}
	return &connection{Conn: conn, answers: bufio.NewReader(conn)}, nil
}

// predict is a Predict that the server remembers.
func (w *web) predict(ctx context.Context, m *client.Model, row *load.Row) error {
	body, err := json.Marshal(struct {
		Features []float64        `json:"features,omitempty"`
		Inputs   *structpb.Struct `json:"inputs,omitempty"`
		LabelTTL string           `json:"labelTtl"`
	}{row.Features, row.Inputs, labelTTL.String()})
	if err != nil {
		return fmt.Errorf("JSON: %w", err)
	}
	c, err := w.take(ctx)
	if err != nil {
		return err
	}
	c.request = fmt.Appendf(c.request[:0], "POST /v1/models/%s:predict HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		m.ID(), w.address, len(body), body)
	if err := c.call(); err != nil {
		return errors.Join(err, c.Close())
	}
	w.idle <- c
	return nil
}

// call sends the request and reads the answer, without what a client would do with its header.
func (c *connection) call() error {
	if _, err := c.Write(c.request); err != nil {
		return err
	}
	status, size := "", 0
	for {
		line, err := c.answers.ReadSlice('\n')
		if err != nil {
			return err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			break
		}
		if status == "" {
			status = string(line)
		}
		if length, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if size, err = strconv.Atoi(string(length)); err != nil {
				return err
			}
		}
	}
	if _, err := c.answers.Discard(size); err != nil || status != "HTTP/1.1 200 OK" {
		return errors.Join(err, errors.New(status))
	}
	return nil
}
