package cli_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"

	"hindsight/cmd/client/internal/cli"
	"hindsight/docs/reference"
)

var update = flag.Bool("update", false, "write the reference of the command line anew")

// The reference of the command line is what its help texts say.
func TestReference(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# The command line

Generated from the commands by ` + "`make reference`" + `; do not edit. [Using
hindsight](../using.md#from-a-csv-file) says what they are for.

`)
	root := cli.Root()
	// What the library adds when a command line runs.
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	commands, said := 0, map[string]string{}
	var tell func(c *cobra.Command)
	tell = func(c *cobra.Command) {
		if !c.IsAvailableCommand() && c.HasParent() || c.Name() == "help" {
			return
		}
		commands++
		about := c.Long
		if about == "" {
			about = c.Short + "."
		}
		fmt.Fprintf(&b, "## %s\n\n", c.CommandPath())
		use := c.UseLine()
		if !c.Runnable() {
			use += " COMMAND"
		}
		indent(&b, use)
		also := ""
		for paragraph := range strings.SplitSeq(about, "\n\n") {
			if first := said[paragraph]; first != "" && len(paragraph) > 80 {
				also = first
				continue
			}
			said[paragraph] = c.CommandPath()
			if strings.HasPrefix(paragraph, " ") || strings.HasPrefix(paragraph, "\t") {
				indent(&b, paragraph)
			} else {
				b.WriteString(reference.Plain(strings.TrimLeft(paragraph, "# ")) + "\n\n")
			}
		}
		if also != "" {
			fmt.Fprintf(&b, "Rounds and figures are as for [%s](#%s).\n\n", also, strings.ReplaceAll(also, " ", "-"))
		}
		if c.Example != "" {
			b.WriteString("Examples:\n\n")
			indent(&b, c.Example)
		}
		if flags := c.NonInheritedFlags(); flags.HasAvailableFlags() {
			usages, above := apart(flags.FlagUsages(), c.CommandPath(), said)
			if usages != "" {
				b.WriteString("Flags:\n\n")
				indent(&b, usages)
			}
			if len(above) > 0 {
				fmt.Fprintf(&b, "Flags as above: %s.\n\n", strings.Join(above, ", "))
			}
		}
		if c.Name() == "completion" { // Its commands belong to the library, one for each shell.
			return
		}
		for _, below := range c.Commands() {
			tell(below)
		}
	}
	tell(root)
	assert.True(t, commands >= 25, "%d commands found", commands)
	assert.NoError(t, reference.Compare("../../../../docs/reference/cli.md", strings.TrimRight(b.String(), "\n")+"\n", *update))
}

// apart takes long descriptions that an earlier command has out of the usages of flags, and
// returns the names of their flags.
func apart(usages, path string, said map[string]string) (rest string, names []string) {
	var b strings.Builder
	for line := range strings.Lines(usages) {
		words := strings.Fields(line)
		text := strings.Join(words, " ")
		if len(text) > 60 && said[text] != "" {
			names = append(names, "`"+words[0]+"`")
			continue
		}
		said[text] = path
		b.WriteString(line)
	}
	return b.String(), names
}

// indent writes a text as code, without the spaces and tabs that all of its lines begin with.
func indent(b *strings.Builder, text string) {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	common := len(text)
	for _, line := range lines {
		if bare := strings.TrimLeft(line, " \t"); bare != "" {
			common = min(common, len(line)-len(bare))
		}
	}
	for _, line := range lines {
		b.WriteString(strings.TrimRight("    "+line[min(common, len(line)):], " \t") + "\n")
	}
	b.WriteString("\n")
}
