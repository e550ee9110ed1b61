package btfhub

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// maxEmbedded is the documented limit of an archive in the binary.
const maxEmbedded = 512 << 10

// TestEmbedded checks the documented properties of the archive.
func TestEmbedded(t *testing.T) {
	if len(archive) > maxEmbedded {
		t.Errorf("got an archive of %d bytes, want at most %d", len(archive), maxEmbedded)
	}
	a, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(a.Kernels()); n < 60 {
		t.Errorf("got %d kernels, want at least 60", n)
	}
	have := make(map[string]int)
	series, flavour := regexp.MustCompile(`^\d+\.\d+`), regexp.MustCompile(`(-cloud|-rt)?-(amd64|arm64)$`)
	for _, e := range a.Kernels() {
		spec, err := a.Types(e)
		if err != nil {
			t.Fatalf("%s: %v", e.Release, err)
		}
		for _, o := range Resolve(spec).All() {
			if !o.Found() && !o.Target.Optional {
				t.Errorf("%s on %s lacks %s: %v: run 'make btfhub'", e.Release, e.Arch, o.Target.Name, o.Err)
			}
		}
		have[series.FindString(e.Release)+flavour.FindString(e.Release)]++
	}
	for _, series := range []string{"5.10", "6.1", "6.12", "6.16", "6.17", "6.18", "6.19", "7.0", "7.1", "7.2", "7.3"} {
		for _, flavour := range []string{"-cloud", "", "-rt"} {
			for _, arch := range []string{"-amd64", "-arm64"} {
				if have[series+flavour+arch] == 0 {
					t.Errorf("no kernel %s%s%s", series, flavour, arch)
				}
			}
		}
	}
}

// TestArchiveIsDeterministic builds the embedded archive again, in another order.
func TestArchiveIsDeterministic(t *testing.T) {
	a, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	var b Builder
	for i := range a.Kernels() {
		e := a.Kernels()[len(a.Kernels())-1-i]
		if err := b.Add(e, a.BTF(e)); err != nil {
			t.Fatal(err)
		}
	}
	data, err := b.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, archive) {
		t.Errorf("got a second archive of %d bytes, want the same %d bytes", len(data), len(archive))
	}
}

func testArchive(t testing.TB, releases ...string) *Archive {
	t.Helper()
	var b Builder
	for i, r := range releases {
		raw := testBTF(t, fmt.Sprintf("t%d", i))
		if err := b.Add(Entry{Release: r, Arch: "amd64", Distro: "test"}, raw); err != nil {
			t.Fatal(err)
		}
	}
	data, err := b.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	a, err := ReadArchive(data)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func testBTF(t testing.TB, name string) []byte {
	t.Helper()
	b, err := btf.NewBuilder([]btf.Type{&btf.Struct{Name: name, Size: 4, Members: []btf.Member{{
		Name: "a", Type: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
	}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestLookup(t *testing.T) {
	a := testArchive(t, "5.10.0-46-cloud-amd64", "5.10.0-46-amd64")
	for _, tt := range []struct {
		release, arch string
		found         bool
	}{
		{"5.10.0-46-cloud-amd64", "amd64", true},
		{"5.10.0-46-amd64", "amd64", true},
		{"5.10.0-46-amd64", "arm64", false},
		{"5.10.0-47-amd64", "amd64", false},
		{"", "amd64", false},
	} {
		e, err := a.Lookup(tt.release, tt.arch)
		if tt.found != (err == nil) || tt.found && e.Release != tt.release {
			t.Errorf("%q on %s: %v, %v", tt.release, tt.arch, e, err)
		}
		if !tt.found && (!errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), tt.release+" on "+tt.arch)) {
			t.Errorf("%q on %s: error %v", tt.release, tt.arch, err)
		}
	}
}

func TestBuilderRefuses(t *testing.T) {
	var b Builder
	e := Entry{Release: "1.2.3-amd64", Arch: "amd64", Distro: "debian"}
	if err := b.Add(e, []byte{1}); err != nil {
		t.Fatal(err)
	}
	if err := b.Add(e, []byte{1}); err != nil {
		t.Errorf("the same again: %v", err)
	}
	for name, add := range map[string]func() error{
		"other types": func() error { return b.Add(e, []byte{2}) },
		"no types":    func() error { return b.Add(Entry{"x", "y", "z", 0}, nil) },
		"large types": func() error { return b.Add(Entry{"x", "y", "z", 0}, make([]byte, maxBlob+1)) },
		"two words":   func() error { return b.Add(Entry{"x\nkernel", "y", "z", 0}, []byte{1}) },
		"no word":     func() error { return b.Add(Entry{"x", "", "z", 0}, []byte{1}) },
		"blank":       func() error { return b.Add(Entry{"x ", "y", "z", 0}, []byte{1}) },
	} {
		if add() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestDamagedArchive cuts and changes an archive at every byte.
func TestDamagedArchive(t *testing.T) {
	data := archive[:len(archive):len(archive)]
	read := func(data []byte) error {
		_, err := ReadArchive(data)
		return err
	}
	whole, err := ReadArchive(data)
	if err != nil {
		t.Fatal(err)
	}
	step := len(data)/500 + 1
	for n := 0; n < len(data); n += step {
		if read(data[:n]) == nil {
			t.Fatalf("cut to %d bytes: got no error", n)
		}
		if n < 4 || n >= 10 { // else a flag, time or system of gzip's header
			damaged := bytes.Clone(data)
			damaged[n] ^= 0x10
			// Equal types: the text is repeated at both distances of a copy.
			if a, err := ReadArchive(damaged); err == nil && !reflect.DeepEqual(a, whole) {
				t.Errorf("byte %d is damaged: got other types", n)
			}
		}
	}
	if read(append(bytes.Clone(data), 0)) == nil {
		t.Error("a byte too many: no error")
	}
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestForgedArchive reads impossible indexes.
func TestForgedArchive(t *testing.T) {
	for _, tt := range []struct {
		text string
		err  error
	}{
		{firstLine + lastLine, nil},
		{firstLine + "\nblob 1\nkernel a b c 0" + lastLine + "x", nil},
		{"", errNoArchive},
		{"quarkBTF 3" + lastLine, errNoArchive},
		{firstLine, errArchive},
		{firstLine + "\nblob 1" + lastLine, errArchive},
		{firstLine + "\nblob 1" + lastLine + "xx", errArchive},
		{firstLine + "\nblob 0" + lastLine, errArchive},
		{firstLine + "\nblob -1" + lastLine, errArchive},
		{firstLine + "\nblob 99999999999999999999" + lastLine, errArchive},
		{firstLine + "\nblob 1\nkernel a b c 1" + lastLine + "x", errArchive},
		{firstLine + "\nkernel a b c 0" + lastLine, errArchive},
		{firstLine + "\nblob 1\nkernel a b c -1" + lastLine + "x", errArchive},
		{firstLine + "\nother" + lastLine, errArchive},
		{firstLine + "\nblob 1048577" + lastLine + strings.Repeat("x", maxBlob+1), errArchive},
		{firstLine + strings.Repeat(" ", maxArchive) + lastLine, errNoArchive},
	} {
		if _, err := ReadArchive(gzipped(t, []byte(tt.text))); !errors.Is(err, tt.err) {
			t.Errorf("%.40q: got error %v, want %v", tt.text, err, tt.err)
		}
	}
}

func FuzzReadArchive(f *testing.F) {
	f.Add(archive)
	var b Builder
	b.Add(Entry{Release: "1.2.3-amd64", Arch: "amd64", Distro: "debian"}, testBTF(f, "a"))
	small, err := b.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(small)
	f.Add([]byte(firstLine + "\nblob 2\nkernel a b c 0" + lastLine + "xx"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := ReadArchive(data)
		if err != nil { // gzip's checksum rejects changes, so test the content
			if a, err = ReadArchive(gzipped(t, data)); err != nil {
				return
			}
		}
		for i, e := range a.Kernels() {
			if raw := a.BTF(e); len(raw) == 0 || len(raw) > maxBlob {
				t.Errorf("%d bytes of BTF", len(raw))
			}
			if i == 8 {
				break
			}
		}
		a.Lookup("6.1.0-56-cloud-amd64", "amd64")
	})
}

// Kernels with shared types have equal offsets, and some of the others do not.
func TestMoved(t *testing.T) {
	a, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	spec := func(e Entry) *btf.Spec {
		spec, err := a.Types(e)
		if err != nil {
			t.Fatal(err)
		}
		return spec
	}
	first := a.Kernels()[0]
	var same, other, moved int
	for _, k := range a.Kernels() {
		if k.Arch != first.Arch {
			continue
		}
		n := len(Moved(spec(first), spec(k)))
		switch {
		case k.blob != first.blob:
			other++
			if n > 0 {
				moved++
			}
		case n > 0:
			t.Errorf("%s has the types of %s, but %d members have other offsets", k.Release, first.Release, n)
		default:
			same++
		}
	}
	t.Logf("%d kernels have the types of %s, %d have others, %d of them with other offsets", same, first.Release, other, moved)
	if same == 0 || moved == 0 {
		t.Errorf("got %d members with equal offsets, %d with others", same, moved)
	}
}
