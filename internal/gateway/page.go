package gateway

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"strings"
)

//go:embed page
var pageFiles embed.FS

// object is an object of JSON.
type object = map[string]any

// apiPage shows the OpenAPI document. It loads a style sheet of this host, and nothing else.
func apiPage(text []byte) ([]byte, error) {
	var document object
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("gateway: the OpenAPI document: %w", err)
	}
	page, err := template.New("api.html").Funcs(template.FuncMap{"upper": strings.ToUpper, "shape": shapeOf}).ParseFS(pageFiles, "page/api.html")
	if err != nil {
		return nil, fmt.Errorf("gateway: the page of the API: %w", err)
	}
	var b bytes.Buffer
	if err := page.Execute(&b, document); err != nil {
		return nil, fmt.Errorf("gateway: the page of the API: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
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
