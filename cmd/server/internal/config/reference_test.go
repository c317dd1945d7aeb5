package config_test

import (
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"hindsight/cmd/server/internal/config"
	"hindsight/docs/reference"
)

var update = flag.Bool("update", false, "write the reference of the server anew")

// bounds is the kind of a number or a duration, which its bounds show.
var bounds = regexp.MustCompile(`a (?:whole number|number|number of bytes|duration) from (\d)`)

// The reference of the server is what its table of settings says.
func TestReference(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Commands and settings of the server

Generated from the table of settings by ` + "`make reference`" + `; do not edit. Each flag is also an
environment variable, such as ` + "`HINDSIGHT_DATA_DIR`" + ` for ` + "`--data-dir`" + `, and a key of the file that
` + "`--config`" + ` or ` + "`HINDSIGHT_CONFIG`" + ` names: [settings](../operating.md#settings).

## Commands

`)
	commands, _, found := strings.Cut(config.Usage(), "\n\n")
	require.True(t, found, "the help text has no list of commands")
	for line := range strings.Lines(commands + "\n") {
		b.WriteString("    " + line)
	}
	group := ""
	for _, s := range config.Settings() {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n## %s\n\n| flag | default | value | |\n|---|---|---|---|\n", group)
		}
		value, _, _ := strings.Cut(s.Want, ", such as ")
		value = bounds.ReplaceAllString(value, "$1")
		standard := "none"
		if s.Standard != "" {
			standard = "`" + s.Standard + "`"
		}
		fmt.Fprintf(&b, "| `--%s` | %s | %s | %s |\n", s.Name, standard, reference.Plain(value), reference.Plain(s.Usage))
	}
	assert.NoError(t, reference.Compare("../../../../docs/reference/server.md", b.String(), *update))
}
