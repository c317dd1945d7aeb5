// The finish of the OpenAPI document: it merges what protoc-gen-openapiv3 wrote for each
// proto file, and makes it say what is served. It writes openapi.json.
//
//	go run ./api/openapi/finish DIR api/openapi
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// overlay is what the proto files do not say: a JSON merge patch, RFC 7396.
//
//go:embed overlay.json
var overlay []byte

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "finish:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("want the directory that protoc-gen-openapiv3 wrote to, and the directory to write to")
	}
	document := object{}
	written := os.DirFS(args[0])
	err := fs.WalkDir(written, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".openapi.json") {
			return err
		}
		text, err := fs.ReadFile(written, path)
		if err != nil {
			return err
		}
		var part object
		if err := json.Unmarshal(text, &part); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		merge(document, part)
		return nil
	})
	if err != nil {
		return err
	}
	var patch object
	if err := json.Unmarshal(overlay, &patch); err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	if err := finish(document, patch); err != nil {
		return err
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", " ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(document); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(args[1], "openapi.json"), text.Bytes(), 0o644); err != nil { //nolint:gosec // Anyone may read it.
		return fmt.Errorf("write the document: %w", err)
	}
	return nil
}
