package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

// TestBill writes the bill of the test itself, which has the library of the bill.
func TestBill(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := run("v1.2.3", program, out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same program has two bills")
	}
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(&first, cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if c := bom.Metadata.Component; c.Name != filepath.Base(program) || c.Version != "v1.2.3" || len((*c.Hashes)[0].Value) != 64 {
		t.Errorf("the program: %+v", c)
	}
	found := map[string]cyclonedx.Component{}
	for _, c := range *bom.Components {
		found[c.Name] = c
	}
	library := found["github.com/CycloneDX/cyclonedx-go"]
	if !strings.HasPrefix(library.PackageURL, "pkg:golang/github.com/CycloneDX/cyclonedx-go@v") || len((*library.Hashes)[0].Value) != 64 {
		t.Errorf("the library: %+v", library)
	}
	if found["std"].Version == "" || len(*(*bom.Dependencies)[0].Dependencies) != len(*bom.Components) {
		t.Errorf("%d components", len(*bom.Components))
	}
	if err := run("v1", "main_test.go", &second); err == nil {
		t.Error("a file that is no program has a bill")
	}
}
