package machine

import (
	"errors"
	"strings"
	"testing"
)

func TestParts(t *testing.T) {
	const emulated = ` -append "mitigations=off apparmor=0 audit=0`
	for _, tt := range []struct {
		part Part
		want string
	}{
		{Part{}, ""},
		{Board("amd64"), `-machine pc -nodefaults -display none -vga none -nic none -no-reboot -append "panic=-1"`},
		{Board("arm64"), `-machine virt -nodefaults -display none -vga none -nic none -no-reboot -append "panic=-1"`},
		{CPUs("amd64", KVM, 2), "-accel kvm -cpu max -smp 2"},
		{CPUs("arm64", KVM, 2), "-accel kvm -cpu max -smp 2"},
		{CPUs("amd64", TCG, 1), "-accel tcg,thread=single -cpu qemu64,-cx16 -smp 1" + emulated + ` no_timer_check"`},
		{CPUs("arm64", TCG, 1), "-accel tcg,thread=single -cpu max,pauth-impdef=on -smp 1" + emulated + `"`},
		{Memory(512), "-m 512"},
		{Console("amd64", false), `-serial mon:stdio -append "console=ttyS0 sysrq_always_enabled loglevel=5"`},
		{Console("arm64", true), `-serial mon:stdio -append "console=ttyAMA0 sysrq_always_enabled"`},
		{Input("amd64"), `-append "quark.stdin=ttyS0"`},
		{Input("arm64"), `-append "quark.stdin=ttyAMA0"`},
		{Results("amd64", "/r"), `-serial file:/r -append "quark.results=ttyS1"`},
		{Results("arm64", "/r"), `-chardev file,id=results,path=/r -device pci-serial,chardev=results -append "quark.results=ttyS0"`},
		{GDB(1234), `-gdb tcp:127.0.0.1:1234 -S -append "nokaslr"`},
		{Images("k,1", "i,2"), "-kernel k,1 -initrd i,2"},
		{Join(Memory(1), Input("amd64"), Input("arm64")), `-m 1 -append "quark.stdin=ttyS0 quark.stdin=ttyAMA0"`},
	} {
		if got := tt.part.String(); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}

// TestArguments: what is asked for comes last on the kernel's command line, so that it overrides
// what is set here.
func TestArguments(t *testing.T) {
	c := Config{Initramfs: "i", Command: []string{"sh", "-c", "a b"}, Append: "mitigations=auto x", Input: strings.NewReader(""), GDB: 99}
	c.CPUs, c.Memory, c.Accel = 2, 512, TCG
	for _, tt := range []struct {
		change    func(*Config)
		file      bool
		want, bad string
	}{
		{func(c *Config) {}, true, "-kernel k -initrd i -append", ""},
		{func(c *Config) {}, false, "-kernel /proc/self/fd/4 -initrd i -append", ""},
		{func(c *Config) {}, true, " quark.stdin=ttyS0 nokaslr mitigations=auto x -- sh -c a%20b", ""},
		{func(c *Config) { c.Append = "" }, true, " nokaslr -- sh -c", ""},
		{func(c *Config) { c.Append = "audit=1 console=x" }, true, " mitigations=off apparmor=0 no_timer_check console=ttyS0 ", ""},
		{func(c *Config) { c.Append = "a -- b" }, true, "", "hold -- or a newline"},
		{func(c *Config) { c.Append = "a\nb" }, true, "", "hold -- or a newline"},
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
