package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// flagValue keeps the text of a flag; it is read and checked with that of all
// other origins.
type flagValue struct {
	name  string
	given map[string]value
}

// Set implements pflag.Value.
func (f flagValue) Set(text string) error {
	f.given[f.name] = value{text, "flag --" + f.name}
	return nil
}

// String implements pflag.Value.
func (f flagValue) String() string { return f.given[f.name].text }

// Type implements pflag.Value.
func (flagValue) Type() string { return "value" }

// readFlags answers the flags that were given.
func readFlags(args []string, table []setting) (map[string]value, error) {
	given := make(map[string]value)
	set := pflag.NewFlagSet("hindsight-server", pflag.ContinueOnError)
	set.Usage = func() {} // the caller prints Usage
	for _, s := range table {
		f := set.VarPF(flagValue{s.name, given}, s.name, "", s.usage)
		if s.placeholder == "" {
			f.NoOptDefVal = "true"
		}
	}
	set.Var(flagValue{fileFlag, given}, fileFlag, "")
	if err := set.Parse(args); errors.Is(err, ErrHelp) {
		return nil, ErrHelp
	} else if err != nil {
		return nil, fmt.Errorf("command line: %w; --help lists the flags", err)
	}
	if rest := set.Args(); len(rest) > 0 {
		return nil, fmt.Errorf("command line: unexpected argument %q, want flags only, as --name=value", rest[0])
	}
	return given, nil
}

// Usage is the help text: every setting in its group, with its default.
func Usage() string {
	var b strings.Builder
	b.WriteString(`Usage:
  hindsight-server [flags]              serve until a signal ends it
  hindsight-server healthcheck [flags]  ask the server of these flags: exit 0 if it serves
  hindsight-server fsck [--truncate] [--json] [flags]
                                        look through a data directory; with
                                        --truncate cut away what is refused
  hindsight-server version              print the version
`)
	line := func(name, placeholder, usage string) {
		flag := "--" + name
		if placeholder != "" {
			flag += " " + placeholder
		}
		// A flag too wide for its column keeps it for itself.
		const column = 34
		if len(flag) > column {
			flag += "\n" + strings.Repeat(" ", 2+column)
		}
		fmt.Fprintf(&b, "  %-*s %s\n", column, flag, usage)
	}
	group := ""
	for _, s := range settings() {
		if s.group != group {
			group = s.group
			fmt.Fprintf(&b, "\n%s:\n", group)
		}
		usage := s.usage
		if s.standard != "" {
			usage += fmt.Sprintf(" (default %s)", s.standard)
		}
		line(s.name, s.placeholder, usage)
	}
	b.WriteString("\nFurther:\n")
	line(fileFlag, "FILE.yaml", "read settings from this file")
	line("help", "", "print this text")
	b.WriteString(`
Every flag is also an environment variable, --data-dir being HINDSIGHT_DATA_DIR,
and a key of the file, data-dir. A flag wins over the environment, the
environment over the file. On and off are --reflection and --reflection=false.
`)
	return b.String()
}
