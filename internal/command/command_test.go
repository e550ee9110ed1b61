package command

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// runFake runs a fake command with two subcommands, and returns its output.
func runFake(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := New(&cobra.Command{Use: "fake COMMAND", Long: "A fake."})
	for _, name := range []string{"one", "two"} {
		c := &cobra.Command{Use: name, Short: name + " thing", RunE: func(c *cobra.Command, _ []string) error {
			return Exclude(c, []string{"red", "green"}, []string{"green", "file"})
		}}
		root.AddCommand(New(c, Group{"Colours", func(c *cobra.Command) {
			c.Flags().Bool("red", false, "be red")
			c.Flags().Bool("green", false, "be green")
		}}, Group{"Files", func(c *cobra.Command) {
			var f File
			var s Span
			c.Flags().Var(&f, "file", "read this `file`")
			c.Flags().Var(&s, "span", "for this `time`")
			c.Flags().String("list", "", "some of a, ab, b")
			CompleteList(c, "list", "a", "ab", "b")
		}}))
	}
	var out strings.Builder
	err := Run(t.Context(), root, args, &out)
	return out.String(), err
}

func TestRun(t *testing.T) {
	for _, c := range []struct{ args, out, err string }{
		{args: "-h", out: "A fake.\n\nUsage:\n  fake COMMAND\n\nCommands:\n"},
		{args: "one -h", out: "Usage:\n  fake one\n\nColours:\n      --red     be red\n      --green   be green\n\nFiles:\n"},
		{args: "-V", out: "fake version "},
		{args: "", err: "name a command: completion, one, two (see fake -h)"},
		{args: "three", err: `unknown command "three": use one of completion, one, two (see fake -h)`},
		{args: "one x", err: `unexpected operand "x" (see fake one -h)`},
		{args: "one --blue", err: "unknown flag: --blue (see fake one -h)"},
		{args: "one --red --green", err: "--red and --green exclude each other: omit one"},
		{args: "one --red --file x --span 5"},
		{args: "one --file -", err: "./- for the file of this name (see fake one -h)"},
		{args: "one --span -1s", err: "must be above 0 (see fake one -h)"},
		{args: "completion", err: "completion: name one shell: bash, zsh, fish or powershell"},
		{args: "completion bash", out: "# bash completion"},
		{args: "__complete one --list b,a", out: "b,a\nb,ab\n"},
	} {
		out, err := runFake(t, strings.Fields(c.args)...)
		if (err == nil) != (c.err == "") || err != nil && !strings.HasSuffix(err.Error(), c.err) || !strings.Contains(out, c.out) {
			t.Errorf("%q: got error %v, output\n%s", c.args, err, out)
		}
	}
}

func TestSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{"4": 4 * time.Second, "0.5": time.Second / 2, "5m": 5 * time.Minute, "0": 0, "x": 0, "-1": 0, "": 0, "Inf": 0} {
		var s Span
		if err := s.Set(text); time.Duration(s) != want || (err == nil) != (want > 0) {
			t.Errorf("%q: got %v, error %v", text, time.Duration(s), err)
		}
	}
}
