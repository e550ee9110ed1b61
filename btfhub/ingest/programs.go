package ingest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/btfhub"
)

// ProgramMembers returns the sorted members that a compiled eBPF object relocates against. It
// leaves out members that no archive has: those of iterators (see [btfhub.IteratorMembers]) and the
// [btfhub.OlderMembers].
func ProgramMembers(object io.ReaderAt) ([]string, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(object)
	if err != nil {
		return nil, fmt.Errorf("read eBPF object: %w", err)
	}
	members := make(map[string]bool)
	for _, program := range spec.Programs {
		if program.AttachType == ebpf.AttachTraceIter {
			continue
		}
		for i := range program.Instructions {
			r := btf.CORERelocationMetadata(&program.Instructions[i])
			if r == nil {
				continue
			}
			member, err := memberOf(spec.Types, r.String())
			if err != nil {
				return nil, fmt.Errorf("read eBPF object: %w", err)
			}
			if !slices.Contains(btfhub.OlderMembers, member) {
				members[member] = true
			}
		}
	}
	if len(members) == 0 {
		return nil, errors.New("read eBPF object: it has no CO-RE relocations")
	}
	return slices.Sorted(maps.Keys(members)), nil
}

// relocation matches the text of a btf.CORERelocation, which exports no fields: its kind, its
// accessor (the indices of nested members, separated by colons), and the id of its type in the
// object.
var relocation = regexp.MustCompile(`^CORERelocation\((\w+), .*\[([0-9:]+)\], local_id=([0-9]+)\)$`)

// memberOf returns the name of a relocation's member.
func memberOf(types *btf.Spec, text string) (string, error) {
	m := relocation.FindStringSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("unknown relocation %s", text)
	}
	var indices []int
	for word := range strings.SplitSeq(m[2], ":") {
		i, err := strconv.Atoi(word)
		if err != nil {
			return "", fmt.Errorf("relocation %s: %w", text, err)
		}
		indices = append(indices, i)
	}
	id, err := strconv.ParseUint(m[3], 10, 32)
	if err != nil {
		return "", fmt.Errorf("relocation %s: %w", text, err)
	}
	t, err := types.TypeByID(btf.TypeID(id))
	if err != nil {
		return "", fmt.Errorf("relocation %s: %w", text, err)
	}
	inner, ok := membersAt(t, indices[1:]) // indices[0] is the index of an array element
	if strings.HasPrefix(m[1], "enumval_") {
		inner, ok = enumeratorAt(t, indices[0])
	}
	if !ok || t.TypeName() == "" {
		return "", fmt.Errorf("relocation %s: no such member", text)
	}
	names := append([]string{t.TypeName()}, inner...)
	for i, name := range names {
		names[i], _, _ = strings.Cut(name, "___") // remove a flavour suffix
	}
	return strings.Join(names, "."), nil
}

func enumeratorAt(t btf.Type, i int) (name []string, ok bool) {
	enum, ok := btf.UnderlyingType(t).(*btf.Enum)
	if !ok || i >= len(enum.Values) {
		return nil, false
	}
	return []string{enum.Values[i].Name}, true
}

func membersAt(t btf.Type, indices []int) (names []string, ok bool) {
	for _, i := range indices {
		t = btf.UnderlyingType(t)
		if a, ok := t.(*btf.Array); ok {
			t = a.Type
			continue
		}
		members := btfhub.Members(t)
		if i >= len(members) {
			return nil, false
		}
		if members[i].Name != "" {
			names = append(names, members[i].Name)
		}
		t = members[i].Type
	}
	return names, true
}
