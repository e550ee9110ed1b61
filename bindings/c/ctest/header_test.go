package ctest

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// header holds the declarations of quark.h.
type header struct {
	structs   []layout
	constants map[string]int // that are a number, or 1 << a number, or a number of QUARK_FIELD
	defines   []string       // all, as they are written
}

// layout is a structure with its members at their offsets.
type layout struct {
	name    string
	size    int
	members []member
}

type member struct {
	name         string
	offset, size int
}

// sizes holds the sizes, which are also the alignments, of all types in quark.h. They are the same
// on amd64 and arm64 (LP64), as is the layout of structures: each member at the next multiple of
// its alignment, the size a multiple of the largest alignment.
var sizes = map[string]int{"char": 1, "uint8_t": 1, "int": 4, "int32_t": 4, "uint32_t": 4, "int64_t": 8, "uint64_t": 8, "size_t": 8, "*": 8}

var (
	comments    = regexp.MustCompile(`(?s)/\*.*?\*/`)
	structs     = regexp.MustCompile(`(?s)struct (\w+) \{\n(.*?)\n\};`)
	declaration = regexp.MustCompile(`^(?:const )?(?:struct )?(\w+) (\*?)(.+)$`)
	declarator  = regexp.MustCompile(`^(\w+)(?:\[(\d+)\])?$`)
	define      = regexp.MustCompile(`(?m)^#define\s+((?:QQ|QUARK)_\w+)\s+(\S.*?)\s*$`)
	number      = regexp.MustCompile(`^(?:\(1 << (\d+)\)|(\d+)|QUARK_FIELD\((\d+)\))$`)
)

func parseHeader(t testing.TB) *header {
	t.Helper()
	b, err := os.ReadFile("../quark.h")
	if err != nil {
		t.Fatal(err)
	}
	text := comments.ReplaceAllString(string(b), "")
	h := &header{constants: make(map[string]int)}
	for _, m := range structs.FindAllStringSubmatch(text, -1) {
		h.structs = append(h.structs, layOut(t, m[1], m[2]))
	}
	for _, m := range define.FindAllStringSubmatch(text, -1) {
		h.defines = append(h.defines, m[1]+" "+m[2])
		if n := number.FindStringSubmatch(m[2]); n != nil {
			value, _ := strconv.Atoi(n[1] + n[2] + n[3])
			if n[1] != "" {
				value = 1 << value
			}
			h.constants[m[1]] = value
		}
	}
	return h
}

// layOut computes the offsets of the members of a structure.
func layOut(t testing.TB, name, body string) layout {
	l, most := layout{name: name}, 1
	for _, statement := range strings.Split(body, ";") {
		statement = strings.TrimSpace(statement)
		if statement == "" {
			continue
		}
		d := declaration.FindStringSubmatch(statement)
		if d == nil || sizes[d[1]] == 0 && d[2] == "" {
			t.Fatalf("struct %s: unknown type in %q", name, statement)
		}
		align := sizes[d[1]]
		if d[2] != "" {
			align = sizes["*"]
		}
		most = max(most, align)
		for _, word := range strings.Split(d[3], ", ") {
			m := declarator.FindStringSubmatch(word)
			if m == nil {
				t.Fatalf("struct %s: invalid member name %q", name, word)
			}
			size := align
			if m[2] != "" {
				n, _ := strconv.Atoi(m[2])
				size *= n
			}
			offset := (l.size + align - 1) / align * align
			l.members = append(l.members, member{m[1], offset, size})
			l.size = offset + size
		}
	}
	l.size = (l.size + most - 1) / most * most
	return l
}

// String is the golden form.
func (l layout) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "struct %s %d\n", l.name, l.size)
	for _, m := range l.members {
		fmt.Fprintf(&b, "  %s %d %d\n", m.name, m.offset, m.size)
	}
	return b.String()
}
