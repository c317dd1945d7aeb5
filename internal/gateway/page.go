package gateway

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"
)

//go:embed page
var pageFiles embed.FS

// schema is as much of a JSON schema as the page shows.
type schema struct {
	Type        string            `json:"type"`
	Format      string            `json:"format"`
	Description string            `json:"description"`
	Reference   string            `json:"$ref"`
	Items       *schema           `json:"items"`
	Additional  *additional       `json:"additionalProperties"`
	Properties  map[string]schema `json:"properties"`
	Values      []string          `json:"enum"`
}

// additional is a schema, or true.
type additional struct{ schema }

func (a *additional) UnmarshalJSON(text []byte) error {
	if bytes.Equal(text, []byte("true")) || bytes.Equal(text, []byte("false")) {
		return nil
	}
	return json.Unmarshal(text, &a.schema)
}

type content map[string]struct {
	Schema schema `json:"schema"`
}

// document is as much of an OpenAPI document as the page shows.
type document struct {
	Version string `json:"openapi"`
	Info    struct{ Title, Summary, Description string }
	Tags    []struct{ Name, Description string }
	Paths   map[string]map[string]struct {
		Tags        []string
		Summary     string
		Description string
		OperationID string
		Parameters  []struct {
			Name, In, Description string
			Schema                schema
		}
		RequestBody struct{ Content content }
		Responses   map[string]struct{ Content content }
	}
	Components struct{ Schemas map[string]schema }
}

// shape is the type of a field as text, with the schema to link to.
type shape struct{ Before, Schema, After string }

type field struct {
	Name, In, Text string
	Type           shape
}

// table is the fields of a schema, or the parameters of an operation.
type table struct {
	Title, Text string
	Values      []string
	Fields      []field
}

type operation struct {
	ID, Method, Path, Summary, Text string
	Parameters, Body                table
	Sent, Answer                    *shape
}

type service struct {
	Name, Text string
	Operations []operation
}

func parseDocument(text []byte) (*document, error) {
	d := new(document)
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("gateway: the OpenAPI document: %w", err)
	}
	return d, nil
}

// page shows the document. It asks for a style sheet of this host, and for nothing else.
func (d *document) page() ([]byte, error) {
	page, err := template.ParseFS(pageFiles, "page/api.html")
	if err != nil {
		return nil, fmt.Errorf("gateway: the page of the API: %w", err)
	}
	var services []service
	for _, tag := range d.Tags {
		services = append(services, service{tag.Name, tag.Description, d.operations(tag.Name)})
	}
	var schemas []table
	for _, name := range slices.Sorted(maps.Keys(d.Components.Schemas)) {
		schemas = append(schemas, d.Components.Schemas[name].table(name))
	}
	var b bytes.Buffer
	err = page.Execute(&b, map[string]any{
		"Title": d.Info.Title, "Summary": d.Info.Summary, "Text": d.Info.Description, "Version": d.Version,
		"Services": services, "Schemas": schemas, "Refusal": "A refusal:",
	})
	if err != nil {
		return nil, fmt.Errorf("gateway: the page of the API: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// operations are those of a service, by path and method.
func (d *document) operations(tag string) []operation {
	var out []operation
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(d.Paths[path])) {
			o := d.Paths[path][method]
			if !slices.Contains(o.Tags, tag) {
				continue
			}
			shown := operation{
				ID: o.OperationID, Method: strings.ToUpper(method), Path: path, Summary: o.Summary, Text: o.Description,
				Parameters: table{Title: "Parameters"}, Answer: o.Responses["200"].Content.shape(),
			}
			for _, p := range o.Parameters {
				shown.Parameters.Fields = append(shown.Parameters.Fields, field{p.Name, p.In, p.Description, p.Schema.shape()})
			}
			if body := o.RequestBody.Content[contentJSON].Schema; len(body.Properties) > 0 {
				shown.Body = body.table("Body, in JSON")
			} else {
				shown.Sent = o.RequestBody.Content.shape()
			}
			out = append(out, shown)
		}
	}
	return out
}

// shape is that of the only type of content; nil when there is none.
func (c content) shape() *shape {
	for kind, value := range c {
		s := value.Schema.shape()
		if kind != contentJSON {
			s = shape{Before: kind}
		}
		return &s
	}
	return nil
}

func (s schema) table(title string) table {
	t := table{Title: title, Text: s.Description, Values: s.Values}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		t.Fields = append(t.Fields, field{Name: name, Text: p.Description, Type: p.shape()})
	}
	return t
}

func (s schema) shape() shape {
	switch {
	case s.Reference != "":
		return shape{Schema: s.Reference[strings.LastIndex(s.Reference, "/")+1:]}
	case s.Type == "array" && s.Items != nil:
		inner := s.Items.shape()
		return shape{"list of " + inner.Before, inner.Schema, inner.After}
	case s.Type == "object" && s.Additional != nil && s.Additional.Type != "":
		inner := s.Additional.shape()
		return shape{"map of text to " + inner.Before, inner.Schema, inner.After}
	}
	return shape{Before: map[string]string{
		"string": "text", "number": "number", "integer": cmp.Or(s.Format, "integer"), "boolean": "boolean",
	}[s.Type] + map[bool]string{true: "object"}[s.Type == "object" || s.Type == ""]}
}
