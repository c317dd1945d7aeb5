// Package openapi has the description of the JSON API. The command make proto generates it
// from the proto files.
package openapi

import _ "embed"

var (
	//go:embed openapi.json
	document []byte
	//go:embed api.html
	page []byte
	//go:embed page.css
	style []byte
)

// Document returns the description, in OpenAPI 3.1 as JSON. The caller does not change it.
func Document() []byte { return document }

// Page returns the document as a page, in HTML. It loads page.css beside it, and nothing else. The caller does not
// change it.
func Page() []byte { return page }

// Style returns page.css. The caller does not change it.
func Style() []byte { return style }
