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
	"time"

	"go.yaml.in/yaml/v3"
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
	written := struct {
		Name        string
		Role        string
		Models      []string  `yaml:",flow,omitempty"`
		SHA256      string    `yaml:",omitempty"`
		Certificate string    `yaml:",omitempty"`
		Claim       string    `yaml:",omitempty"`
		NotAfter    time.Time `yaml:"not-after,omitempty"`
		Rate        float64   `yaml:",omitempty"`
		Concurrency int       `yaml:",omitempty"`
	}{
		Name: e.Name, Role: e.Role.String(), Models: e.Models, Certificate: e.Certificate,
		NotAfter: e.NotAfter.UTC(), Rate: e.Rate, Concurrency: e.Concurrency,
	}
	switch {
	case e.Hash != nil:
		written.SHA256 = hex.EncodeToString(e.Hash[:])
	case e.Certificate == "":
		written.Claim = e.Claim + "=" + e.Value
	}
	text, err := yaml.Marshal([]any{written})
	if err != nil {
		panic("auth: " + err.Error()) // Texts and numbers always have YAML.
	}
	return string(text)
}

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
