package auth_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/internal/auth"
)

const (
	digits = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	secret = "hs_0123456789012345678901234567890123456789012"
)

func TestParse(t *testing.T) {
	entries, err := auth.Parse([]byte(`# the team's
- name: ci
  role: write
  models: [team-a-, b]   # two
  sha256: ` + digits + `
  not-after: 2027-01-31T00:00:00Z
  rate: 2.5
  concurrency: 8

- {name: scraper, role: read, certificate: "Prometheus of Ops", models: one}
- name: 'people'
  role: admin
  claim: groups=ml team
`))
	require.NoError(t, err)
	ci, scraper, people := entries[0], entries[1], entries[2]
	if ci.Name != "ci" || ci.Role != auth.Write || !reflect.DeepEqual(ci.Models, []string{"team-a-", "b"}) || ci.Hash == nil || ci.Hash[1] != 0x23 ||
		!ci.NotAfter.Equal(time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)) || ci.Rate != 2.5 || ci.Concurrency != 8 {
		t.Errorf("ci: %+v", ci)
	}
	assert.True(t, scraper.Role == auth.Read && scraper.Certificate == "Prometheus of Ops" && reflect.DeepEqual(scraper.Models, []string{"one"}), "scraper: %+v", scraper)
	assert.True(t, people.Role == auth.Admin && people.Claim == "groups" && people.Value == "ml team" && people.Models == nil, "people: %+v", people)
	for _, empty := range []string{"", "# nobody\n", "~\n", "[]\n"} {
		entries, err := auth.Parse([]byte(empty))
		assert.True(t, err == nil && len(entries) == 0, "%q: %v, %v", empty, entries, err)
	}
}

func TestParseRejects(t *testing.T) {
	good := "- name: a\n  role: read\n  sha256: " + digits + "\n"
	for _, c := range []struct{ file, want string }{
		{"name: a\n", `line 1: want a list of entries`},
		{"- a\n", `line 1: want an entry of fields`},
		{good + "---\n[]\n", `line 4: got a second document, want one`},
		{"- name: a\n  rôle: read\n", `line 2: field rôle: it is not known, want certificate, claim, concurrency, models, name, not-after, rate, role, sha256`},
		{"- name: a\n  name: b\n", `line 2: field name: it is there twice`},
		{"- name: [a]\n", `line 1: field name: want one value`},
		{"- name: &x a\n  role: *x\n", `line 2: field role: want one value`},
		{"- name:\n", `line 1: field name: want one value`},
		{"- name: a b\n", `line 1: field name: got "a b", want 1 to 253 printable characters without spaces`},
		{"- name: a\n  role: root\n", `line 2: field role: got "root", want admin, write or read`},
		{"- name: a\n  role: none\n", `line 2: field role: got "none", want admin, write or read`},
		{"- name: a\n  models: []\n", `line 2: field models: got a list, want a list of beginnings of ids`},
		{"- name: a\n  models: [team/]\n", `line 2: field models: got a list, want`},
		{"- name: a\n  models: -x\n", `line 2: field models: got "-x", want`},
		{"- name: a\n  models: [x, x]\n", `line 2: field models: got a list, want`},
		{"- name: a\n  models: [[x]]\n", `line 2: field models: got a list, want`},
		{"- name: a\n  sha256: abc\n", `line 2: field sha256: got 3 characters, want 64 hexadecimal digits`},
		{"- name: a\n  sha256: " + secret + "\n", `line 2: field sha256: got 46 characters, want`},
		{"- name: a\n  not-after: tomorrow\n", `line 2: field not-after: got "tomorrow", want a time such as`},
		{"- name: a\n  rate: 0\n", `line 2: field rate: got "0", want calls a second, from 0.001`},
		{"- name: a\n  rate: NaN\n", `line 2: field rate: got "NaN", want`},
		{"- name: a\n  concurrency: 0.5\n", `line 2: field concurrency: got "0.5", want calls at once, from 1`},
		{"- name: a\n  claim: groups\n", `line 2: field claim: got "groups", want CLAIM=VALUE`},
		{"- name: a\n  certificate: ' a'\n", `line 2: field certificate: got " a", want the name in the certificate`},
		{"- role: read\n  sha256: " + digits + "\n", `line 1: field name: got nothing, want it in every entry`},
		{"- name: a\n  sha256: " + digits + "\n", `line 1: field role: got nothing, want it in every entry`},
		{"- name: a\n  role: read\n", `line 1: entry a: got 0 of sha256, certificate and claim, want one`},
		{good + "  certificate: b\n", `line 1: entry a: got 2 of sha256, certificate and claim, want one`},
		{good + strings.Replace(good, digits, digits[1:]+"0", 1), `line 4: field name: got "a", which line 1 has, want another`},
		{good + strings.Replace(good, "name: a", "name: b", 1), `line 4: entry b: it lets in what the entry of line 1 lets in`},
		// A secret in a wrong place is not shown.
		{"- name: a\n  role: " + secret + "\n", `line 2: field role: got 46 characters, want`},
		{"- name: a\n  " + secret + ": x\n", `line 2: want the fields certificate`},
		{"- '" + secret + "\n", "yaml: line 2: found unexpected end of stream"},
		{strings.Repeat("#", auth.MaxFile+1), `got 4194305 bytes, want at most 4194304`},
	} {
		_, err := auth.Parse([]byte(c.file))
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), c.want) && !strings.Contains(err.Error(), "hs_"), "%.200q: %v, want %s", c.file, err, c.want)
	}
}

// Adding leaves all else of the file as it is.
func TestAdd(t *testing.T) {
	file := []byte("# head\n- name: a   # first\n  role: read\n  sha256: " + digits + "\n\n# about b\n- name: b\n  role: read\n  certificate: b\n# tail")
	hash := auth.HashOf(secret)
	added, err := auth.Add(file, &auth.Entry{
		Name: "it's-c", Role: auth.Admin, Models: []string{"m-", "null"}, Hash: &hash,
		NotAfter: time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC), Rate: 0.5, Concurrency: 3,
	})
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(added), string(file)+"\n- name: 'it''s-c'\n") && !strings.Contains(string(added), secret), "added:\n%s", added)
	entries, err := auth.Parse(added)
	require.NoError(t, err)
	c := entries[2]
	assert.True(t, c.Name == "it's-c" && *c.Hash == hash && c.Models[1] == "null" && c.Rate == 0.5 && c.Concurrency == 3 && c.NotAfter.Second() == 5, "%+v", c)
	_, err = auth.Add(added, &c)
	assert.True(t, err != nil && strings.Contains(err.Error(), "want another"), "twice: %v", err)
	for _, flow := range []string{"[{name: a, role: read, certificate: x}]\n", "[{name: a, role: read, certificate: x}, {name: b, role: read, certificate: y}]\n"} {
		out, err := auth.Add([]byte(flow), &c)
		assert.Error(t, err, "an entry behind a list in brackets: %s", out)
	}
}

// FuzzParse looks for a file that makes Parse panic, speak more than a line, or take
// what Add then breaks.
func FuzzParse(f *testing.F) {
	f.Add("- name: a\n  role: read\n  sha256: "+digits+"\n", "a")
	f.Add("- {name: a, role: write, certificate: b, models: [x, y-]}\n# end", "a")
	f.Add("- name: a\n  role: admin\n  claim: a.b=c\n  rate: 1e3\n  not-after: 2027-01-31T00:00:00Z\n", "z")
	f.Add("- &a [*a]\n", "")
	f.Add("- <<: {name: a}\n", "a")
	f.Add("-\n  name: 'a'\n\n\n", "a")
	f.Fuzz(func(t *testing.T, file, name string) {
		entries, err := auth.Parse([]byte(file))
		if err != nil {
			assert.False(t, strings.ContainsAny(err.Error(), "\r\n"), "more than one line: %q", err)
			return
		}
		hash := auth.HashOf(name)
		if added, err := auth.Add([]byte(file), &auth.Entry{Name: "added", Role: auth.Read, Hash: &hash}); err == nil {
			same(t, added, append(entries[:len(entries):len(entries)], auth.Entry{Name: "added", Role: auth.Read, Hash: &hash}))
		}
	})
}

// same fails unless a file has these entries.
func same(t *testing.T, file []byte, want []auth.Entry) {
	t.Helper()
	got, err := auth.Parse(file)
	require.NoError(t, err, file)
	require.Equal(t, len(want), len(got), file)
	for n := range got {
		assert.Equal(t, want[n].Text(), got[n].Text(), "%v %v", n, file)
	}
}
