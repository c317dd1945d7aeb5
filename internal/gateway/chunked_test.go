package gateway_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A proxy that ends a request by its Content-Length takes the chunk behind for another request. So the server answers nothing
// on the connection after a chunked request.
func TestAChunkedRequestEndsItsConnection(t *testing.T) {
	const chunked, length, body = "Transfer-Encoding: chunked\r\n", "Content-Length: 4\r\n", "2\r\n{}\r\n0\r\n\r\n"
	h := serve(t)
	for _, c := range []struct {
		name, headers, body string
		ends                bool
	}{
		{"chunked", chunked, body, true},
		{"chunked, with a length", chunked + length, body, true},
		{"a length", "Content-Length: 2\r\n", "{}", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := must(new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(h.url, "http://")))(t)
			defer func() { assert.NoError(t, conn.Close()) }()
			one := "POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + c.headers + "\r\n" + c.body
			must(io.WriteString(conn, one+one))(t)
			from, answers := bufio.NewReader(conn), 0
			for answers < 2 {
				r, err := http.ReadResponse(from, nil)
				if err != nil {
					break
				}
				must(io.Copy(io.Discard, r.Body))(t)
				assert.NoError(t, r.Body.Close())
				answers++
			}
			assert.Equal(t, c.ends, answers == 1, answers)
		})
	}
}
