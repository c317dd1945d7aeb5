package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"strings"
)

//go:embed page.html
var pageText string

// writePage writes the page that shows the OpenAPI document. It loads a style sheet of its host, and nothing else.
func writePage(path string, text []byte) error {
	var document object
	if err := json.Unmarshal(text, &document); err != nil {
		return fmt.Errorf("the OpenAPI document: %w", err)
	}
	page, err := template.New("page").Funcs(template.FuncMap{"upper": strings.ToUpper, "shape": shapeOf}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("the page of the API: %w", err)
	}
	var b bytes.Buffer
	if err := page.Execute(&b, document); err != nil {
		return fmt.Errorf("the page of the API: %w", err)
	}
	return os.WriteFile(path, append(bytes.TrimSpace(b.Bytes()), '\n'), 0o644) //nolint:gosec // Anyone may read it.
}

// shape is a type as text, with the schema to link to.
type shape struct{ Before, Schema, After string }

// shapeOf is the type that a schema of JSON describes.
func shapeOf(schema object) shape {
	reference, _ := schema["$ref"].(string)
	items, _ := schema["items"].(object)
	values, _ := schema["additionalProperties"].(object)
	kind, _ := schema["type"].(string)
	format, _ := schema["format"].(string)
	switch {
	case reference != "":
		return shape{Schema: reference[strings.LastIndex(reference, "/")+1:]}
	case kind == "array" && items != nil:
		inner := shapeOf(items)
		return shape{"list of " + inner.Before, inner.Schema, inner.After}
	case kind == "object" && values["type"] != nil:
		inner := shapeOf(values)
		return shape{"map of text to " + inner.Before, inner.Schema, inner.After}
	}
	return shape{Before: map[string]string{
		"string": "text", "number": "number", "integer": cmp.Or(format, "integer"), "boolean": "boolean", "object": "object", "": "object",
	}[kind]}
}
