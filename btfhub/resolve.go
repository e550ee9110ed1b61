package btfhub

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// Offset has the offset of a target in a kernel's types, or the reason why the target is missing.
type Offset struct {
	Target Target

	// Path is the alternative that was found, "" if none.
	Path string

	// Enum is set for an enumerator. Then Value is its value, and Bits is 0.
	Enum  bool
	Value int64

	// Bits is the member's offset in bits, a multiple of 8.
	Bits uint64

	// Size is the member's size in bytes.
	Size uint32

	// Err is the reason why no alternative was found.
	Err error
}

// Found reports whether an alternative was found.
func (o *Offset) Found() bool { return o.Path != "" }

// Same reports whether a target has the same offset and size, or the same value, in two kernels, or
// is missing in both.
func (o *Offset) Same(p *Offset) bool {
	return o.Found() == p.Found() && o.Enum == p.Enum && o.Bits == p.Bits && o.Value == p.Value && o.Size == p.Size
}

// Offsets has the offsets of targets in one kernel's types.
type Offsets struct {
	list   []*Offset
	byName map[string]*Offset
}

// Resolve looks up all [Targets] in a kernel's types. [Offsets.Missing] returns the missing ones.
func Resolve(spec *btf.Spec) *Offsets { return ResolveTargets(spec, targets) }

// ResolveTargets looks up targets in a kernel's types.
func ResolveTargets(spec *btf.Spec, targets []Target) *Offsets {
	o := &Offsets{byName: make(map[string]*Offset, len(targets))}
	for _, t := range targets {
		found := resolve(spec, t)
		o.byName[t.Name] = found
		o.list = append(o.list, found)
	}
	return o
}

// All returns the targets in their order, found or not.
func (o *Offsets) All() []*Offset { return o.list }

// Get returns the target with this name, nil if there is none.
func (o *Offsets) Get(name string) *Offset { return o.byName[name] }

// Moved returns the names of the targets whose offset, size or value differs in the other kernel.
// Both must have been resolved for the same targets.
func (o *Offsets) Moved(other *Offsets) (names []string) {
	for _, t := range o.list {
		if !t.Same(other.Get(t.Target.Name)) {
			names = append(names, t.Target.Name)
		}
	}
	return names
}

// Bytes returns the offset of a member in its type, in bytes. ok is false if this kernel lacks it.
func (o *Offsets) Bytes(name string) (off uint32, ok bool) {
	t := o.Get(name)
	if t == nil || !t.Found() || t.Enum {
		return 0, false
	}
	return uint32(t.Bits / 8), true
}

// Value returns the value of an enumerator. ok is false if this kernel lacks it.
func (o *Offsets) Value(name string) (value int64, ok bool) {
	t := o.Get(name)
	if t == nil || !t.Found() || !t.Enum {
		return 0, false
	}
	return t.Value, true
}

// Missing returns the names of the targets that are not optional and were not found.
func (o *Offsets) Missing() (names []string) {
	for _, t := range o.list {
		if !t.Found() && !t.Target.Optional {
			names = append(names, t.Target.Name)
		}
	}
	return names
}

// maxOffset is larger than any of the kernel's types, and small enough for a fetch argument of a
// kprobe.
const maxOffset = 1 << 30

func resolve(spec *btf.Spec, t Target) *Offset {
	o := &Offset{Target: t}
	var why []string
	for _, path := range t.Alternatives {
		err := o.lookUp(spec, path)
		if err == nil {
			o.Path = path
			return o
		}
		why = append(why, err.Error())
	}
	o.Err = errors.New(strings.Join(why, "; "))
	return o
}

// lookUp looks up one alternative. If several types of this name have the member, their offsets
// must agree.
func (o *Offset) lookUp(spec *btf.Spec, path string) error {
	name, rest, _ := strings.Cut(path, ".")
	if name == "" || rest == "" {
		return fmt.Errorf("%q is not TYPE.MEMBER", path)
	}
	types, err := spec.AnyTypesByName(name)
	if errors.Is(err, btf.ErrNotFound) {
		return fmt.Errorf("no type %s", name)
	}
	if err != nil {
		return fmt.Errorf("look up type %s: %w", name, err)
	}
	found := false
	err = fmt.Errorf("%s has no %s", name, rest)
	for _, t := range types {
		if t.TypeName() != name {
			continue // skip flavours (NAME___SUFFIX)
		}
		var one Offset
		e := one.lookUpIn(t, rest)
		if errors.Is(e, errNoMember) {
			continue
		}
		if e != nil {
			err = fmt.Errorf("%s.%s %w", name, rest, e)
			continue
		}
		if found && (o.Bits != one.Bits || o.Value != one.Value || o.Enum != one.Enum) {
			return fmt.Errorf("the types named %s differ in %s", name, rest)
		}
		found = true
		o.Bits, o.Size, o.Enum, o.Value = one.Bits, one.Size, one.Enum, one.Value
	}
	if found {
		return nil
	}
	return err
}

var errNoMember = errors.New("no such member")

func (o *Offset) lookUpIn(t btf.Type, rest string) error {
	if enum, ok := btf.UnderlyingType(t).(*btf.Enum); ok {
		if enum.Size == 0 || enum.Size > 8 {
			return errors.New("has no size")
		}
		for _, v := range enum.Values {
			if v.Name == rest {
				o.Enum, o.Value = true, int64(v.Value)
				if enum.Signed && enum.Size == 4 {
					o.Value = int64(int32(v.Value))
				}
				o.Size = enum.Size
				return nil
			}
		}
		return errNoMember
	}
	last, bits, ok := findMember(t, strings.Split(rest, "."))
	if !ok {
		return errNoMember
	}
	switch {
	case bits%8 != 0:
		return errors.New("does not start at a byte")
	case bits/8 >= maxOffset:
		return errors.New("has an absurd offset")
	case last.BitfieldSize != 0:
		o.Bits, o.Size = bits, 1 // the byte with its first bits
		return nil
	}
	size, err := btf.Sizeof(last.Type)
	if err != nil || size < 0 || size >= maxOffset {
		return errors.New("has no size")
	}
	o.Bits, o.Size = bits, uint32(size)
	return nil
}
