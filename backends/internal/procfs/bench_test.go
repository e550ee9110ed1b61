package procfs

import (
	"os"
	"testing"

	"github.com/quark-linux/quark/engine"
)

func BenchmarkRead(b *testing.B) {
	r, err := Open()
	if err != nil {
		b.Skip(err)
	}
	defer r.Close()
	pid := uint32(os.Getppid())
	for _, c := range []struct {
		name string
		want engine.Fields
	}{
		{"all", Readable},
		{"stat", fieldsStat},
		{"status", fieldsStatus | 1<<engine.FieldStart},
		{"ns", engine.FieldsNS | 1<<engine.FieldStart},
		{"exe", 1<<engine.FieldExe | 1<<engine.FieldStart},
		{"cmdline", 1<<engine.FieldArgs | 1<<engine.FieldStart},
		{"cgroup", 1<<engine.FieldCgroup | 1<<engine.FieldStart},
	} {
		b.Run(c.name, func(b *testing.B) {
			var ev engine.RawEvent
			b.ReportAllocs()
			for b.Loop() {
				ev.Reset()
				if _, err := r.Read(pid, c.want, &ev); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
