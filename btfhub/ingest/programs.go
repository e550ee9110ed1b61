package ingest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/btfhub"
)

// relocation is struct bpf_core_relo of include/uapi/linux/bpf.h.
type relocation struct {
	Offset, Type, Access, Kind uint32
}

// The kinds of relocation (enum bpf_core_relo_kind) that are of an enumerator.
const (
	enumValueExists = 10
	enumValue       = 11
)

// extHeader is struct btf_ext_header with the fields for CO-RE.
type extHeader struct {
	Magic                   uint16
	Version, Flags          uint8
	Length                  uint32
	FuncOffset, FuncLength  uint32
	LineOffset, LineLength  uint32
	RelosOffset, RelosBytes uint32
}

var errProgram = errors.New("read CO-RE relocations: damaged section .BTF.ext")

// ProgramMembers returns the members that a compiled eBPF object relocates against, sorted.
func ProgramMembers(object io.ReaderAt) ([]string, error) {
	f, err := elf.NewFile(object)
	if err != nil {
		return nil, fmt.Errorf("read eBPF object: %w", err)
	}
	ext, types := f.Section(".BTF.ext"), f.Section(".BTF")
	if ext == nil || types == nil {
		return nil, errors.New("read eBPF object: it has no BTF")
	}
	data, err := ext.Data()
	if err != nil {
		return nil, fmt.Errorf("read eBPF object: %w", err)
	}
	raw, err := types.Data()
	if err != nil {
		return nil, fmt.Errorf("read eBPF object: %w", err)
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("read eBPF object: %w", err)
	}
	relocations, err := relocations(data)
	if err != nil {
		return nil, err
	}
	var members []string
	for _, r := range relocations {
		accessor, err := stringAt(raw, r.Access)
		if err != nil {
			return nil, err
		}
		t, err := spec.TypeByID(btf.TypeID(r.Type))
		if err != nil {
			return nil, fmt.Errorf("read CO-RE relocations: %w", err)
		}
		member, err := memberOf(t, accessor, r.Kind)
		if err != nil {
			return nil, err
		}
		members = append(members, member)
	}
	slices.Sort(members)
	return slices.Compact(members), nil
}

func relocations(ext []byte) ([]relocation, error) {
	var h extHeader
	if _, err := binary.Decode(ext, binary.LittleEndian, &h); err != nil || uint64(h.Length)+uint64(h.RelosOffset)+uint64(h.RelosBytes) > uint64(len(ext)) {
		return nil, errProgram
	}
	b := ext[h.Length+h.RelosOffset:][:h.RelosBytes]
	u32 := func() uint32 {
		if len(b) < 4 {
			b = nil
			return 0
		}
		v := binary.LittleEndian.Uint32(b)
		b = b[4:]
		return v
	}
	size := u32()
	if size < 16 || size > 1024 {
		return nil, errProgram
	}
	var all []relocation
	for len(b) > 0 {
		u32() // the section's name
		n := u32()
		if uint64(n)*uint64(size) > uint64(len(b)) {
			return nil, errProgram
		}
		for range n {
			var r relocation
			binary.Decode(b, binary.LittleEndian, &r)
			all = append(all, r)
			b = b[size:]
		}
	}
	return all, nil
}

// stringAt returns the string at an offset of the strings of raw BTF.
func stringAt(raw []byte, at uint32) (string, error) {
	if len(raw) < 24 {
		return "", errProgram
	}
	header, offset, size := binary.LittleEndian.Uint32(raw[4:]), binary.LittleEndian.Uint32(raw[16:]), binary.LittleEndian.Uint32(raw[20:])
	start := uint64(header) + uint64(offset)
	if start+uint64(size) > uint64(len(raw)) || at >= size {
		return "", errProgram
	}
	s, _, ok := bytes.Cut(raw[start+uint64(at):start+uint64(size)], []byte{0})
	if !ok {
		return "", errProgram
	}
	return string(s), nil
}

// memberOf returns the name of the member that an accessor selects in a type of the program. An
// accessor is indices with colons between them, as in "0:1:2". The first one is that of an array's
// element.
func memberOf(t btf.Type, accessor string, kind uint32) (string, error) {
	name, _, _ := strings.Cut(t.TypeName(), "___") // a flavour
	if name == "" {
		return "", fmt.Errorf("read CO-RE relocations: %v has no name", t)
	}
	var indices []int
	for word := range strings.SplitSeq(accessor, ":") {
		i, err := strconv.Atoi(word)
		if err != nil || i < 0 {
			return "", errProgram
		}
		indices = append(indices, i)
	}
	if kind == enumValue || kind == enumValueExists {
		enum, ok := btf.UnderlyingType(t).(*btf.Enum)
		if !ok || indices[0] >= len(enum.Values) {
			return "", errProgram
		}
		value, _, _ := strings.Cut(enum.Values[indices[0]].Name, "___")
		return name + "." + value, nil
	}
	for _, i := range indices[1:] {
		t = btf.UnderlyingType(t)
		if a, ok := t.(*btf.Array); ok {
			t = a.Type
			continue
		}
		members := btfhub.Members(t)
		if i >= len(members) {
			return "", errProgram
		}
		if members[i].Name != "" {
			name += "." + members[i].Name
		}
		t = members[i].Type
	}
	return name, nil
}
