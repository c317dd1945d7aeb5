// Package openapi has the description of the JSON API. The command make proto generates it
// from the proto files.
package openapi

import _ "embed"

//go:embed openapi.json
var document []byte

// Document returns the description, in OpenAPI 3.1 as JSON. The caller does not change it.
func Document() []byte { return document }
