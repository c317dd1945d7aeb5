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
		use := c.UseLine()
		if !c.Runnable() {
			use += " COMMAND"
		}
		indent(&b, use)
		for paragraph := range strings.SplitSeq(about, "\n\n") {
			if strings.HasPrefix(paragraph, " ") || strings.HasPrefix(paragraph, "\t") {
				indent(&b, paragraph)
			} else {
				b.WriteString(reference.Plain(strings.TrimLeft(paragraph, "# ")) + "\n\n")
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
	if err := reference.Compare("cli.md", strings.TrimRight(b.String(), "\n")+"\n", *update); err != nil {
		t.Error(err)
	}
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
