package ingest

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/klauspost/compress/zstd"

	"github.com/quark-linux/quark/btfhub"
)

// embeddedBTF returns the types of a kernel of the embedded archive.
func embeddedBTF(t testing.TB) (btfhub.Entry, []byte) {
	t.Helper()
	a, err := btfhub.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	e := a.Kernels()[0]
	return e, a.BTF(e)
}

func packXZ(t testing.TB, b []byte) []byte {
	t.Helper()
	cmd := exec.Command("xz", "-c")
	cmd.Stdin = bytes.NewReader(b)
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("no xz to pack with: %v", err)
	}
	return out
}

func packTar(t testing.TB, name string, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range []*tar.Header{
		{Name: "other", Size: 0},
		{Name: name, Size: int64(len(b)), Mode: 0o644},
	} {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			w.Write(b)
		}
	}
	w.Close()
	return out.Bytes()
}

// TestDirectory ingests a directory with the layout of btfhub-archive.
func TestDirectory(t *testing.T) {
	_, raw := embeddedBTF(t)
	enc, _ := zstd.NewWriter(nil)
	few, err := btf.NewBuilder([]btf.Type{&btf.Struct{Name: "task_struct", Size: 4, Members: []btf.Member{
		{Name: "pid", Type: &btf.Int{Name: "int", Size: 4}},
	}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	lacking, err := few.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	for path, data := range map[string][]byte{
		"centos/8/x86_64/4.18.0-80.el8.x86_64.btf.tar.xz": packXZ(t, packTar(t, "./4.18.0-80.el8.x86_64.btf", raw)),
		"ubuntu/20.04/arm64/5.4.0-42-generic.btf.xz":      packXZ(t, raw),
		"debian/12/amd64/6.1.0-1-amd64.btf.gz":            gzipped(t, raw),
		"debian/12/amd64/6.1.0-2-amd64.btf.zst":           enc.EncodeAll(raw, nil),
		"debian/12/amd64/6.1.0-3-amd64.btf":               raw,
		"debian/12/amd64/6.1.0-4-amd64.btf":               lacking,
		"debian/12/amd64/6.1.0-5-amd64.btf":               raw[:len(raw)-1],
		"debian/12/amd64/6.1.0-6-amd64.btf.tar.xz":        packXZ(t, packTar(t, "nothing", raw)),
		"debian/12/amd64/README":                          []byte("no kernel"),
		"debian/12/mips/6.1.0-1-mips.btf":                 raw,
		"debian/12/6.1.0-9-amd64.btf":                     raw,
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kernels, err := Kernels(dir)
	if err != nil {
		t.Fatal(err)
	}
	const good, lacks, bad = "good", "lacks", "bad"
	got := make(map[string]string)
	for _, k := range kernels {
		var types []byte
		_, spec, err := k.Load()
		if err == nil {
			types, err = Reduce(spec, btfhub.Needed())
		}
		switch key := k.Distro + " " + k.Arch + " " + k.Release; {
		case err == nil:
			got[key] = good
			if !bytes.Equal(types, raw) {
				t.Errorf("%s: got %d bytes from a second reduction, want the same %d bytes", key, len(types), len(raw))
			}
		case strings.Contains(err.Error(), "lack"):
			got[key] = lacks
		default:
			got[key] = bad
		}
	}
	want := map[string]string{
		"centos amd64 4.18.0-80.el8.x86_64": good,
		"ubuntu arm64 5.4.0-42-generic":     good,
		"debian amd64 6.1.0-1-amd64":        good,
		"debian amd64 6.1.0-2-amd64":        good,
		"debian amd64 6.1.0-3-amd64":        good,
		"debian amd64 6.1.0-4-amd64":        lacks,
		"debian amd64 6.1.0-5-amd64":        bad,
		"debian amd64 6.1.0-6-amd64":        bad,
	}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: %s, want %s", k, got[k], v)
		}
	}
	if _, err := Kernels(t.TempDir()); err == nil {
		t.Error("an empty directory: no error")
	}
}
