package cli

import (
	"github.com/spf13/cobra"

	"hindsight/cmd/internal/command"
)

// Root is the command line of a version that has no number.
func Root() *cobra.Command { return newRoot(&env{Program: new(command.Program)}, "") }
