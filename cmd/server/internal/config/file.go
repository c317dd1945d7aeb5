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

// readFile reads the settings of a YAML file: one mapping from their names to
// single values.
func readFile(path value, table []setting) (map[string]value, error) {
	data, err := os.ReadFile(path.text)
	if err != nil {
		return nil, fmt.Errorf("%s (from %s): %w", fileFlag, path.origin, err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return map[string]value{}, nil // no line that is not a comment
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", path.text, err)
	}
	if err := decoder.Decode(&more); err == nil {
		return nil, fmt.Errorf("%s line %d: got a second document, want one", path.text, more.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", path.text, err)
	}
	return readMapping(path.text, doc.Content[0], table)
}

func readMapping(path string, root *yaml.Node, table []setting) (map[string]value, error) {
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return map[string]value{}, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s line %d: want settings as lines of \"name: value\"", path, root.Line)
	}
	file := make(map[string]value, len(root.Content)/2)
	for pair := range slices.Chunk(root.Content, 2) {
		key, node := pair[0], pair[1]
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		at := fmt.Sprintf("%s line %d", path, key.Line)
		name := key.Value
		_, twice := file[name]
		switch {
		case !known(name, table):
			return nil, fmt.Errorf("%s: unknown key %q%s", at, name, hint(name, table))
		case twice:
			return nil, fmt.Errorf("%s: key %q is there twice", at, name)
		case node.Kind != yaml.ScalarNode || node.Tag == "!!null":
			return nil, fmt.Errorf("%s: key %q: want one value", at, name)
		}
		file[name] = value{node.Value, at}
	}
	return file, nil
}

func known(name string, table []setting) bool {
	return slices.ContainsFunc(table, func(s setting) bool { return s.name == name })
}

// hint helps one who wrote a key the way other programs do.
func hint(name string, table []setting) string {
	fold := func(s string) string {
		return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s))
	}
	for _, s := range table {
		if fold(s.name) == fold(name) {
			return fmt.Sprintf(", did you mean %q?", s.name)
		}
	}
	return ""
}
