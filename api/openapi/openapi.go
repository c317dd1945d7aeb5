// Package openapi holds the description of the JSON API. It is generated from the proto
// files: make proto.
package openapi

import _ "embed"

//go:embed openapi.json
var document []byte

// Document is the description, in OpenAPI 3.1 as JSON. The caller does not change it.
func Document() []byte { return document }
