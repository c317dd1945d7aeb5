package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// fileFlag is the one flag that is not a setting: a file cannot name a file.
const fileFlag = "config"

// readFile reads the settings of a YAML file: one mapping from names to single
// values. It reads the nodes of the document, because they have line numbers.
func readFile(path value, table []setting) (map[string]value, error) {
	data, err := os.ReadFile(path.text)
	if err != nil {
		return nil, fmt.Errorf("%s (from %s): %w", fileFlag, path.origin, err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil // The file has only comments.
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", path.text, err)
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, fmt.Errorf("%s line %d: got a second document, want one", path.text, second.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", path.text, err)
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode && root.Tag != "!!null" {
		return nil, fmt.Errorf("%s line %d: want settings as lines of \"name: value\"", path.text, root.Line)
	}
	file := make(map[string]value, len(root.Content)/2)
	for pair := range slices.Chunk(root.Content, 2) {
		name, node := pair[0].Value, pair[1]
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		at := fmt.Sprintf("%s line %d", path.text, pair[0].Line)
		known := slices.ContainsFunc(table, func(s setting) bool { return s.name == name })
		switch _, twice := file[name]; {
		case !known:
			return nil, fmt.Errorf("%s: unknown key %q%s", at, name, hint(name, table))
		case twice:
			return nil, fmt.Errorf("%s: key %q: got it twice, want it once", at, name)
		case node.Kind != yaml.ScalarNode || node.Tag == "!!null":
			return nil, fmt.Errorf("%s: key %q: want one value", at, name)
		}
		file[name] = value{node.Value, at}
	}
	return file, nil
}

// hint suggests the setting of a key in another spelling, for instance dataDir or data_dir.
func hint(name string, table []setting) string {
	fold := func(s string) string { return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s)) }
	for _, s := range table {
		if fold(s.name) == fold(name) {
			return fmt.Sprintf(", did you mean %q?", s.name)
		}
	}
	return ""
}
