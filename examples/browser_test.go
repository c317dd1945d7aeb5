package examples_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// browser is a headless Chromium. It is driven by the DevTools protocol over pipes:
// JSON, with a zero byte at the end of each message.
type browser struct {
	to      io.Writer
	from    *bufio.Reader
	last    int
	session string
}

// openBrowser runs a browser until the test ends.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	commandsRead, commandsWrite, err := os.Pipe()
	require.NoError(t, err)
	answersRead, answersWrite, err := os.Pipe()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	command := exec.CommandContext(ctx, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	command.ExtraFiles, command.WaitDelay = []*os.File{commandsRead, answersWrite}, 10*time.Second
	// Wait waits until every process of the browser has closed its copy of the pipe behind Stderr: a
	// process that is left would still write to the directory.
	command.Stderr = new(bytes.Buffer)
	if err := command.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = command.Wait() // It is killed.
		for _, f := range []*os.File{commandsWrite, answersRead} {
			_ = f.Close() // A pipe that nobody reads any more.
		}
	})
	for _, f := range []*os.File{commandsRead, answersWrite} {
		if err := f.Close(); err != nil { // The browser has its own.
			t.Fatal(err)
		}
	}
	return &browser{to: commandsWrite, from: bufio.NewReader(answersRead)}
}

// call calls a method of the DevTools protocol. The end of the browser ends it.
func (b *browser) call(method string, params map[string]any, result any) error {
	b.last++
	message, err := json.Marshal(map[string]any{"id": b.last, "method": method, "params": params, "sessionId": b.session})
	if b.session == "" {
		message, err = json.Marshal(map[string]any{"id": b.last, "method": method, "params": params})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if _, err := b.to.Write(append(message, 0)); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	for {
		text, err := b.from.ReadBytes(0)
		if err != nil {
			return fmt.Errorf("%s: the browser has ended: %w", method, err)
		}
		var answer struct {
			ID     int             `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  *struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		if err := json.Unmarshal(text[:len(text)-1], &answer); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		switch {
		case answer.ID != b.last: // An event.
		case answer.Error != nil:
			return fmt.Errorf("%s: %s", method, answer.Error.Message)
		case result == nil:
			return nil
		default:
			return json.Unmarshal(answer.Result, result)
		}
	}
}

// visit opens a page in a tab of its own.
func (b *browser) visit(t *testing.T, url string) {
	t.Helper()
	b.session = ""
	var target struct {
		ID string `json:"targetId"`
	}
	require.NoError(t, b.call("Target.createTarget", map[string]any{"url": url}, &target))
	var attached struct {
		Session string `json:"sessionId"`
	}
	require.NoError(t, b.call("Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &attached))
	b.session = attached.Session
}

// await evaluates an expression in the page until it has the value.
func (b *browser) await(t *testing.T, expression, value string) {
	t.Helper()
	var seen string
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		var evaluated struct {
			Result struct {
				Value any `json:"value"`
			} `json:"result"`
			Exception json.RawMessage `json:"exceptionDetails"`
		}
		// The next frame ends the wait, so that the page has time to change.
		script := "new Promise(r => setTimeout(r, 20)).then(() => " + expression + ")"
		err := b.call("Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true}, &evaluated)
		seen = fmt.Sprint(evaluated.Result.Value, " ", err, " ", string(evaluated.Exception))
		if err == nil && evaluated.Exception == nil && fmt.Sprint(evaluated.Result.Value) == value {
			return
		}
	}
	t.Fatalf("%s is %s, want %q", expression, seen, value)
}
