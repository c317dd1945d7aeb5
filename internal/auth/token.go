package auth

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tokenPrefix begins a token, for people and secret scanners to recognise.
const tokenPrefix = "hs_"

// secretBytes are the random bytes of a token. Nobody can try 2^256 tokens, so one round of
// SHA-256 suffices. Slow hashes protect passwords, which can be guessed.
const secretBytes = 32

// NewToken returns a new token.
func NewToken() string {
	var secret [secretBytes]byte
	_, _ = rand.Read(secret[:]) // It fills the bytes, or ends the program.
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
}

// HashOf is what the tokens file stores of a token.
func HashOf(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

// Text is the entry as lines of the tokens file.
func (e *Entry) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "- name: %s\n  role: %s\n", quoted(e.Name), e.Role)
	if len(e.Models) > 0 {
		names := make([]string, len(e.Models))
		for n, m := range e.Models {
			names[n] = strconv.Quote(m)
		}
		fmt.Fprintf(&b, "  models: [%s]\n", strings.Join(names, ", "))
	}
	switch {
	case e.Hash != nil:
		fmt.Fprintf(&b, "  sha256: %q\n", hex.EncodeToString(e.Hash[:]))
	case e.Certificate != "":
		fmt.Fprintf(&b, "  certificate: %s\n", quoted(e.Certificate))
	default:
		fmt.Fprintf(&b, "  claim: %s\n", quoted(e.Claim+"="+e.Value))
	}
	if !e.NotAfter.IsZero() {
		fmt.Fprintf(&b, "  not-after: %q\n", e.NotAfter.UTC().Format(time.RFC3339))
	}
	if e.Rate != 0 {
		fmt.Fprintf(&b, "  rate: %s\n", strconv.FormatFloat(e.Rate, 'g', -1, 64))
	}
	if e.Concurrency != 0 {
		fmt.Fprintf(&b, "  concurrency: %d\n", e.Concurrency)
	}
	return b.String()
}

// quoted is a text in single quotes, where YAML escapes only the quote itself.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Add appends an entry to a tokens file. The rest of the file stays as it is.
func Add(file []byte, e *Entry) ([]byte, error) {
	before, err := Parse(file)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(file)
	if len(out) > 0 && !bytes.HasSuffix(out, []byte("\n")) {
		out = append(out, '\n')
	}
	out = append(out, e.Text()...)
	after, err := Parse(out)
	if err != nil {
		return nil, fmt.Errorf("the file with the new entry: %w", err)
	}
	if len(after) != len(before)+1 {
		return nil, errBlock
	}
	return out, nil
}

var errBlock = errors.New(`the file is no list whose entries begin with "- name: NAME" on a line each: edit it by hand`)
