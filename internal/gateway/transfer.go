package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/grpc"

	hindsightv1 "hindsight/api/proto/hindsight/v1"
)

// pieceBytes is what a message of an import holds.
const pieceBytes = 256 << 10

// export answers GET /v1/models/{model}:export with the bytes of a model. An export
// that fails on its way breaks the connection off, so that no client takes a part for
// the whole.
func (g *Gateway) export(w http.ResponseWriter, r *http.Request, path map[string]string) {
	request := &hindsightv1.ExportModelRequest{Model: path["model"]}
	if err := query(r, request); err != nil {
		g.write(w, failed(err))
		return
	}
	leave, ok := g.stream(w)
	if !ok {
		return
	}
	defer leave()
	ctx, cancel := context.WithCancel(outgoing(r))
	defer cancel()
	pieces, err := g.models.ExportModel(ctx, request)
	if err != nil {
		g.write(w, failed(err))
		return
	}
	control := http.NewResponseController(w)
	for begun := false; ; begun = true {
		piece, err := pieces.Recv()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil && !begun {
			g.write(w, failed(err))
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler) // The way of net/http to break a connection off.
		}
		if !begun {
			header := w.Header()
			header.Set("Content-Type", contentBytes)
			header.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", request.GetModel()+".hindsight"))
			header.Set("Cache-Control", "no-store")
			header.Set("X-Content-Type-Options", "nosniff")
		}
		_ = control.SetWriteDeadline(g.Now().Add(writeTimeout)) // Only a writer of a test has none.
		if _, err := w.Write(piece.GetChunk()); err != nil {
			return // The client has left.
		}
	}
}

// importModel answers POST /v1/models:import?id=ID, whose body are the bytes of an
// exported model.
func (g *Gateway) importModel(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	if !isContent(r, contentBytes) {
		g.write(w, wrongContent(r, contentBytes, "curl: -H 'Content-Type: application/octet-stream' --data-binary @FILE"))
		return
	}
	leave, ok := g.stream(w)
	if !ok {
		return
	}
	defer leave()
	ctx, cancel := context.WithCancel(outgoing(r))
	defer cancel()
	call, err := g.models.ImportModel(ctx)
	if err != nil {
		g.write(w, failed(err))
		return
	}
	piece := make([]byte, pieceBytes)
	taken := begin(call, r.URL.Query().Get("id"))
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
			g.write(w, g.incomplete(readErr))
			return
		}
	}
	answer, err := call.CloseAndRecv()
	if err != nil {
		g.write(w, failed(err))
		return
	}
	text, err := encode(answer)
	if err != nil {
		g.write(w, failed(err))
		return
	}
	w.Header().Set("Content-Type", contentJSON)
	_, _ = w.Write(text) // An error means that the client has left.
}

// begin sends the id, and tells whether the import is taken: one who is refused keeps no place
// by sending no body.
func begin(call grpc.ClientStreamingClient[hindsightv1.ImportModelRequest, hindsightv1.ImportModelResponse], id string) bool {
	if call.Send(&hindsightv1.ImportModelRequest{Id: id}) != nil {
		return false
	}
	// The server sends it when it takes the id; a call that has ended has none.
	header, err := call.Header()
	return err == nil && header != nil
}
