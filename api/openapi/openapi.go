// Package openapi has the description of the JSON API. The command make proto generates it
// from the proto files.
package openapi

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
)

//go:embed openapi.json.gz
var packed []byte

// Document unpacks the description, OpenAPI 3.1 as JSON.
func Document() []byte {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic("openapi: " + err.Error())
	}
	document, err := io.ReadAll(z)
	if err != nil {
		panic("openapi: " + err.Error())
	}
	return document
}
