package machine

import (
	"errors"
	"strings"
	"testing"
)

// TestArguments: the caller's words come last on the kernel's command line, so that they override
// the defaults.
func TestArguments(t *testing.T) {
	c := Config{Initramfs: "i", Command: []string{"sh", "-c", "a b"}, Append: "mitigations=auto x", Input: strings.NewReader("")}
	c.CPUs, c.Memory, c.Accel = 2, 512, TCG
	for _, tt := range []struct {
		change    func(*Config)
		file      bool
		want, bad string
	}{
		{func(c *Config) {}, true, "-kernel k -initrd i -append", ""},
		{func(c *Config) {}, false, "-kernel /proc/self/fd/4 -initrd i -append", ""},
		{func(c *Config) {}, true, " quark.stdin=ttyS0 mitigations=auto x -- sh -c a%20b", ""},
		{func(c *Config) { c.Append = "" }, true, " quark.stdin=ttyS0 -- sh -c", ""},
		{func(c *Config) { c.Append = "audit=1 console=x" }, true, " mitigations=off apparmor=0 no_timer_check console=ttyS0 ", ""},
		{func(c *Config) { c.Append = "a -- b" }, true, "", "contain -- or a newline"},
		{func(c *Config) { c.Append = "a\nb" }, true, "", "contain -- or a newline"},
		{func(c *Config) { c.Command = []string{strings.Repeat("x", 2000)} }, true, "", "2047 fit"},
	} {
		changed := c
		tt.change(&changed)
		args, err := changed.arguments(&kernel{path: "k", arch: "amd64", file: tt.file})
		line := strings.Join(args, " ")
		if tt.bad == "" && (err != nil || !strings.Contains(line, tt.want)) {
			t.Errorf("%s, %v; want %q", line, err, tt.want)
		}
		if tt.bad != "" && (!errors.As(err, new(UsageError)) || !strings.Contains(err.Error(), tt.bad)) {
			t.Errorf("error %v, want one with %q", err, tt.bad)
		}
	}
}
