// Sbom writes what a Go program was built from, as CycloneDX: the modules that the linker
// put into it, with the checksums of go.sum.
//
//	sbom VERSION PROGRAM >PROGRAM.cdx.json
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom VERSION PROGRAM")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "sbom: %v\n", err)
		os.Exit(1)
	}
}

func run(version, path string, out io.Writer) error {
	program, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	bom, err := bill(filepath.Base(path), version, sha256.Sum256(program), info)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6)
}

// bill is the bill of materials of a program. It depends on the program alone, so the same
// program has the same bill.
func bill(name, version string, sum [sha256.Size]byte, info *debug.BuildInfo) (*cyclonedx.BOM, error) {
	bom := cyclonedx.NewBOM()
	// A UUID of version 8, made of the program.
	id := sum
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	bom.SerialNumber = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
	bom.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		BOMRef: name, Type: cyclonedx.ComponentTypeApplication, Name: name, Version: version,
		Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
		Hashes:   &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
	}}
	properties := make([]cyclonedx.Property, 0, len(info.Settings))
	for _, s := range info.Settings {
		properties = append(properties, cyclonedx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	bom.Metadata.Component.Properties = &properties
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	components := []cyclonedx.Component{{
		BOMRef: "pkg:golang/std@" + goVersion, Type: cyclonedx.ComponentTypeLibrary, Name: "std", Version: goVersion,
		PackageURL: "pkg:golang/std@" + goVersion,
	}}
	for _, module := range info.Deps {
		used := module
		if used.Replace != nil {
			used = used.Replace
		}
		url := "pkg:golang/" + used.Path + "@" + used.Version
		checksum, err := hash(used)
		if err != nil {
			return nil, err
		}
		components = append(components, cyclonedx.Component{
			BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: used.Path, Version: used.Version, PackageURL: url,
			Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: checksum}},
		})
	}
	bom.Components = &components
	references := make([]string, 0, len(components))
	for _, c := range components {
		references = append(references, c.BOMRef)
	}
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: name, Dependencies: &references}}
	return bom, nil
}

var errChecksum = errors.New("no checksum h1:")

// hash is the checksum that go.sum has of a module, in hexadecimal: SHA-256 over the names
// and hashes of its files.
func hash(module *debug.Module) (string, error) {
	text, ok := strings.CutPrefix(module.Sum, "h1:")
	sum, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(sum) != sha256.Size {
		return "", fmt.Errorf("module %s: %w: %q", module.Path, errChecksum, module.Sum)
	}
	return hex.EncodeToString(sum), nil
}
