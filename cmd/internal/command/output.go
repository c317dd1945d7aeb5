package command

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// JSON reports whether the answer is one JSON document.
func (p *Program) JSON() bool { return p.json }

// Emit writes the answer of a command: the page of human, or the document as JSON. Without human a table is JSON too.
func (p *Program) Emit(document any, human func(*Page)) error {
	p.emitted = true
	if !p.json && human != nil {
		return p.page(human)
	}
	encoder := json.NewEncoder(p.Stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// EmitLine is Emit, with the document as JSON in one line.
func (p *Program) EmitLine(document any, human func(*Page)) error {
	if !p.json {
		return p.Emit(document, human)
	}
	p.emitted = true
	if err := json.NewEncoder(p.Stdout).Encode(document); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// EmitRows writes an answer that is a list: a table with the given header, or the document as JSON. Rows have as many
// values as the header.
func (p *Program) EmitRows(document any, header []string, rows [][]any) error {
	return p.Emit(document, func(w *Page) { w.Rows(header, rows) })
}

func (p *Program) page(human func(*Page)) error {
	w := newPage(p.Stdout)
	human(w)
	return w.end()
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream io.Writer) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
