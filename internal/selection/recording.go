package selection

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quark-linux/quark/internal/command"
)

// TakeRecording makes c accept the name of a recording as its operand.
func TakeRecording(c *cobra.Command, name *string) {
	c.Args = func(c *cobra.Command, operands []string) error {
		if len(operands) != 1 {
			return fmt.Errorf("name one recording (see %s -h)", c.CommandPath())
		}
		if err := (*command.File)(name).Set(operands[0]); err != nil {
			return fmt.Errorf("recording %q: %w", operands[0], err)
		}
		return nil
	}
	c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveDefault // files
	}
}
