package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"hindsight/cmd/internal/command"
)

// version builds "version".
func (e *env) version(number string) verb {
	return verb{use: "version", short: "Say which build this is", before: func(*call) error {
		v := build(number)
		return e.emit(v, func(w *command.Page) {
			w.Row("version", v.Version)
			if v.Revision != "" {
				w.Row("revision", v.Revision)
				w.Row("committed", v.Time)
				w.Row("changed since", v.Modified)
			}
			w.Row("go", v.Go)
			w.Row("platform", v.Platform)
		})
	}}
}

// version is what is known of a build.
type version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// build reads what the go command has put into the program.
func build(number string) version {
	v := version{Version: number, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// newMan builds "man".
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages into a directory",
		Long:    "Write a manual page for each command into a directory that exists.",
		Example: "  hindsight man ~/.local/share/man/man1 && man hindsight-replay",
		Args:    command.Exactly("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Section: "1", Source: "hindsight", Manual: "hindsight"}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return command.Usagef("%s: %w", args[0], err)
			}
			return nil
		},
	}
}
