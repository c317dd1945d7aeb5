package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/grpc"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

const (
	contentBytes = "application/octet-stream"
	pieceBytes   = 256 << 10
)

// export answers with the bytes of a model. An export that fails on its way aborts the
// connection, so that no client takes a part for the whole.
func (g *Gateway) export(w http.ResponseWriter, r *http.Request, c *call) error {
	request := new(hindsightv1.ExportModelRequest)
	ctx, end, err := g.begin(r, c, request)
	if err != nil {
		return err
	}
	defer end()
	pieces, err := g.models.ExportModel(ctx, request)
	if err != nil {
		return err
	}
	control := http.NewResponseController(w)
	for begun := false; ; begun = true {
		piece, err := pieces.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !begun {
			return err
		}
		if err != nil {
			panic(http.ErrAbortHandler) // net/http aborts the connection.
		}
		if !begun {
			header := w.Header()
			header.Set("Content-Type", contentBytes)
			header.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", request.GetModel()+".hindsight"))
			header.Set("Cache-Control", "no-store")
		}
		_ = control.SetWriteDeadline(g.Now().Add(writeTimeout)) // Only a writer of a test has none.
		if _, err := w.Write(piece.GetChunk()); err != nil {
			return nil // The client has left.
		}
	}
}

func (g *Gateway) importModel(w http.ResponseWriter, r *http.Request, c *call) error {
	first := new(hindsightv1.ImportModelRequest)
	ctx, end, err := g.begin(r, c, first)
	if err != nil {
		return err
	}
	defer end()
	if !isContent(r, contentBytes) {
		return wrongContent(r, contentBytes, "curl: -H 'Content-Type: application/octet-stream' --data-binary @FILE")
	}
	call, err := g.models.ImportModel(ctx)
	if err != nil {
		return err
	}
	piece := make([]byte, pieceBytes)
	taken := accepts(call, first)
	if !taken {
		w.Header().Set("Connection", "close") // Or net/http waits for a short body before it answers.
	}
	for taken {
		expect(r, readTimeout)
		n, readErr := io.ReadFull(r.Body, piece)
		// An error of Send says that the call has ended; CloseAndRecv says how.
		if n > 0 && call.Send(&hindsightv1.ImportModelRequest{Chunk: piece[:n]}) != nil {
			break
		}
		if errors.Is(readErr, io.EOF) || errors.Is(readErr, io.ErrUnexpectedEOF) {
			break
		}
		if readErr != nil {
			return g.incomplete(readErr)
		}
	}
	_ = http.NewResponseController(w).SetWriteDeadline(g.Now().Add(importTimeout)) // Only a writer of a test has none.
	answer, err := call.CloseAndRecv()
	if err != nil {
		return err
	}
	return writeMessage(w, answer)
}

// accepts sends the id, and reports whether the server accepts the import, so that a rejected
// client holds no place by sending no body.
func accepts(call grpc.ClientStreamingClient[hindsightv1.ImportModelRequest, hindsightv1.ImportModelResponse], first *hindsightv1.ImportModelRequest) bool {
	if call.Send(first) != nil {
		return false
	}
	// The server sends its header when it accepts the id. A rejected call has no header.
	header, err := call.Header()
	return err == nil && header != nil
}
