package cli_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"hindsight/cmd/client/internal/cli"
	"hindsight/docs/reference"
)

var update = flag.Bool("update", false, "write the reference of the command line anew")

// The reference of the command line is what its help texts say.
func TestReference(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# The command line

Generated from the commands by ` + "`make reference`" + `; do not edit. [Using
hindsight](../using.md#the-client) says what they are for.

`)
	root := cli.Root()
	// What the library adds when a command line runs.
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	commands := 0
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
		indent(&b, c.UseLine())
		for paragraph := range strings.SplitSeq(about, "\n\n") {
			if strings.HasPrefix(paragraph, " ") || strings.HasPrefix(paragraph, "\t") {
				indent(&b, paragraph)
			} else {
				b.WriteString(reference.Plain(paragraph) + "\n\n")
			}
		}
		if c.Example != "" {
			b.WriteString("Examples:\n\n")
			indent(&b, c.Example)
		}
		if flags := c.NonInheritedFlags(); flags.HasAvailableFlags() {
			b.WriteString("Flags:\n\n")
			indent(&b, flags.FlagUsages())
		}
		for _, below := range c.Commands() {
			tell(below)
		}
	}
	tell(root)
	if commands < 25 {
		t.Errorf("%d commands found", commands)
	}
	reference.Compare(t, "cli.md", strings.TrimRight(b.String(), "\n")+"\n", *update)
}

// indent writes a text as code.
func indent(b *strings.Builder, text string) {
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		b.WriteString(strings.TrimRight("    "+line, " \t") + "\n")
	}
	b.WriteString("\n")
}
