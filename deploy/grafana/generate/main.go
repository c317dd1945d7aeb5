// Generate writes the dashboards into the directory that it is given.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"hindsight/deploy/grafana"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return errors.New("usage: generate DIRECTORY")
	}
	for _, d := range grafana.Dashboards() {
		text, err := d.JSON()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(os.Args[1], d.UID+".json"), text, 0o644); err != nil { //nolint:gosec // anyone may read it
			return fmt.Errorf("write a dashboard: %w", err)
		}
	}
	return nil
}
