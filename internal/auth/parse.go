package auth

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// Bounds of the tokens file.
const (
	// MaxFile is the maximum size of a tokens file in bytes.
	MaxFile        = 4 << 20
	maxText        = 253
	maxModels      = 64
	maxRate        = 1e6
	maxConcurrency = 1_000_000
)

// Entry is an entry of the tokens file. It has exactly one of Hash, Certificate and Claim.
type Entry struct {
	Name string
	Role Role
	// Models are prefixes of ids; empty is all models.
	Models      []string
	Hash        *[sha256.Size]byte
	Certificate string
	// Claim and Value: a JWT whose claim is the value, or a list with the value.
	Claim, Value string
	// NotAfter is the zero time without an end.
	NotAfter time.Time
	// Rate is the maximum of calls a second, Concurrency the maximum at once; 0 is no limit.
	Rate        float64
	Concurrency int
	// from is the first line, from 1.
	from int
}

// fields returns the fields of an entry, with their readers. A reader returns what it wants if the value
// is invalid.
func fields() map[string]func(e *Entry, n *yaml.Node) (want string) {
	return map[string]func(e *Entry, n *yaml.Node) string{
		"name": func(e *Entry, n *yaml.Node) string {
			e.Name = n.Value
			return need(isText(n.Value), "1 to 253 printable characters without spaces")
		},
		"role": func(e *Entry, n *yaml.Node) string {
			var ok bool
			e.Role, ok = ParseRole(n.Value)
			return need(ok, "admin, write or read")
		},
		"models": (*Entry).readModels,
		"sha256": func(e *Entry, n *yaml.Node) string {
			hash, err := hex.DecodeString(n.Value)
			if err == nil && len(hash) == sha256.Size {
				e.Hash = (*[sha256.Size]byte)(hash)
			}
			return need(e.Hash != nil, "64 hexadecimal digits, as token create writes them")
		},
		"certificate": func(e *Entry, n *yaml.Node) string {
			e.Certificate = n.Value
			return need(isName(n.Value), "the name in the certificate: 1 to 253 printable characters")
		},
		"claim": func(e *Entry, n *yaml.Node) string {
			e.Claim, e.Value, _ = strings.Cut(n.Value, "=")
			return need(isText(e.Claim) && isName(e.Value), "CLAIM=VALUE, such as groups=ml-team")
		},
		"not-after": func(e *Entry, n *yaml.Node) string {
			var err error
			e.NotAfter, err = time.Parse(time.RFC3339, n.Value)
			return need(err == nil, "a time such as 2027-01-31T00:00:00Z")
		},
		"rate": func(e *Entry, n *yaml.Node) string {
			var err error
			e.Rate, err = strconv.ParseFloat(n.Value, 64)
			return need(err == nil && e.Rate >= 0.001 && e.Rate <= maxRate, "calls a second, from 0.001 to 1000000")
		},
		"concurrency": func(e *Entry, n *yaml.Node) string {
			var err error
			e.Concurrency, err = strconv.Atoi(n.Value)
			return need(err == nil && e.Concurrency >= 1 && e.Concurrency <= maxConcurrency, "calls at once, from 1 to 1000000")
		},
	}
}

func need(ok bool, want string) string {
	if ok {
		return ""
	}
	return want
}

func isText(s string) bool { return isName(s) && !strings.ContainsFunc(s, unicode.IsSpace) }

// isName is isText that admits spaces inside.
func isName(s string) bool {
	return s != "" && len(s) <= maxText && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) || c == unicode.ReplacementChar })
}

const wantModels = "a list of beginnings of ids of [a-z0-9._-], such as [team-a-], each once; leave it out for all models"

func (e *Entry) readModels(n *yaml.Node) string {
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	for _, item := range nodes {
		if !isScalar(item) || !isPrefix(item.Value) || slices.Contains(e.Models, item.Value) {
			return wantModels
		}
		e.Models = append(e.Models, item.Value)
	}
	return need(len(e.Models) > 0 && len(e.Models) <= maxModels, wantModels)
}

// isPrefix reports whether a model id can begin with a text.
func isPrefix(s string) bool {
	for n, c := range []byte(s) {
		letter := ('a' <= c && c <= 'z') || ('0' <= c && c <= '9')
		if !letter && (n == 0 || !strings.ContainsRune("._-", rune(c))) {
			return false
		}
	}
	return s != "" && len(s) <= 63
}

func isScalar(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag != "!!null" }

// Parse reads a tokens file: a YAML list of entries. It rejects unknown and repeated fields. An
// error is one line with the line number, the field, the value and what is wanted; it shows
// nothing that looks like a token.
func Parse(data []byte) ([]Entry, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("got %d bytes, want at most %d", len(data), MaxFile)
	}
	root, err := document(data)
	if err != nil || root == nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(root.Content))
	for _, node := range root.Content {
		e, err := readEntry(node)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, unique(entries)
}

func document(data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, oneLine(err)
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, fmt.Errorf("line %d: got a second document, want one", second.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, oneLine(err)
	}
	switch root := doc.Content[0]; {
	case root.Kind == yaml.ScalarNode && root.Tag == "!!null":
		return nil, nil
	case root.Kind != yaml.SequenceNode:
		return nil, fmt.Errorf("line %d: want a list of entries, each of which begins with \"- name: NAME\"", root.Line)
	default:
		return root, nil
	}
}

func oneLine(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if quoted := strings.IndexAny(text, "'\"`"); quoted >= 0 {
		text = strings.TrimSpace(text[:quoted])
	}
	return errors.New(text)
}

func readEntry(node *yaml.Node) (Entry, error) {
	e := Entry{from: node.Line}
	if node.Kind != yaml.MappingNode {
		return e, fmt.Errorf("line %d: want an entry of fields, which begins with \"- name: NAME\"", node.Line)
	}
	known, given := fields(), map[string]bool{}
	for pair := range slices.Chunk(node.Content, 2) {
		name, value := pair[0].Value, pair[1]
		at := fmt.Sprintf("line %d: field %s", pair[0].Line, name)
		read, ok := known[name]
		switch {
		case !ok && looksSecret(name), !ok && !isText(name):
			return e, fmt.Errorf("line %d: want the fields %s", pair[0].Line, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case !ok:
			return e, fmt.Errorf("%s: it is not known, want %s", at, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case given[name]:
			return e, fmt.Errorf("%s: got it twice, want it once", at)
		case name != "models" && !isScalar(value):
			return e, fmt.Errorf("%s: want one value", at)
		}
		given[name] = true
		if want := read(&e, value); want != "" {
			return e, fmt.Errorf("%s: got %s, want %s", at, shown(name, value), want)
		}
	}
	for _, name := range []string{"name", "role"} {
		if !given[name] {
			return e, fmt.Errorf("line %d: field %s: got nothing, want it in every entry", node.Line, name)
		}
	}
	kinds := 0
	for _, name := range []string{"sha256", "certificate", "claim"} {
		if given[name] {
			kinds++
		}
	}
	if kinds != 1 {
		return e, fmt.Errorf("line %d: entry %s: got %d of sha256, certificate and claim, want one", node.Line, e.Name, kinds)
	}
	return e, nil
}

func shown(name string, value *yaml.Node) string {
	switch {
	case value.Kind != yaml.ScalarNode:
		return "a list"
	case name == "sha256" || looksSecret(value.Value):
		return fmt.Sprintf("%d characters", len(value.Value))
	default:
		return fmt.Sprintf("%.80q", value.Value)
	}
}

func looksSecret(s string) bool {
	return strings.Contains(s, tokenPrefix) || strings.Contains(s, "eyJ") || len(s) >= 40
}

func unique(entries []Entry) error {
	names, credentials := map[string]int{}, map[string]int{}
	for n := range entries {
		e := &entries[n]
		credential := cmp.Or(e.Certificate, e.Claim+"="+e.Value)
		if e.Hash != nil {
			credential = string(e.Hash[:])
		}
		if first, twice := names[e.Name]; twice {
			return fmt.Errorf("line %d: field name: got %q, which line %d has, want another", e.from, e.Name, first)
		}
		if first, twice := credentials[credential]; twice {
			return fmt.Errorf("line %d: entry %s: it lets in what the entry of line %d lets in", e.from, e.Name, first)
		}
		names[e.Name], credentials[credential] = e.from, e.from
	}
	return nil
}
