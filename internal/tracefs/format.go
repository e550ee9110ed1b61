package tracefs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Event is a tracepoint, read from its format file.
type Event struct {
	Name   string
	ID     uint64 // config of a perf event of type tracepoint
	Fields []Field
}

// Field is a member of a tracepoint's record.
type Field struct {
	Name         string
	Offset, Size int // bytes, from the start of the record
}

// Field returns a field by name.
func (e *Event) Field(name string) (Field, bool) {
	for _, f := range e.Fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// maxRecord bounds the size of a record, for which the kernel's limit is one page.
const maxRecord = 1 << 16

// ParseFormat parses the content of a tracepoint's format file:
//
//	name: sys_exit_setsid
//	ID: 123
//	format:
//		field:long ret;	offset:16;	size:8;	signed:1;
func ParseFormat(text []byte) (*Event, error) {
	e := &Event{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		key, value, _ := strings.Cut(line, ":")
		switch key {
		case "name":
			e.Name = strings.TrimSpace(value)
		case "ID":
			id, err := strconv.ParseUint(strings.TrimSpace(value), 10, 32)
			if err != nil {
				return nil, fmt.Errorf("parse ID: %w", err)
			}
			e.ID = id
		case "field":
			f, err := parseField(line)
			if err != nil {
				return nil, fmt.Errorf("parse %q: %w", line, err)
			}
			e.Fields = append(e.Fields, f)
		}
	}
	if e.ID == 0 {
		return nil, errors.New("the format has no ID")
	}
	return e, nil
}

func parseField(line string) (f Field, err error) {
	f.Offset, f.Size = -1, -1
	for part := range strings.SplitSeq(line, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), ":")
		switch key {
		case "field": // a C declaration: the name is last, before [dimensions]
			decl := strings.TrimSpace(value)
			if strings.HasSuffix(decl, "]") {
				decl = strings.TrimSpace(decl[:max(strings.LastIndexByte(decl, '['), 0)])
			}
			f.Name = decl[strings.LastIndexAny(decl, " \t*")+1:]
		case "offset":
			f.Offset, err = strconv.Atoi(value)
		case "size":
			f.Size, err = strconv.Atoi(value)
		}
		if err != nil {
			return f, err
		}
	}
	if f.Name == "" || f.Offset < 0 || f.Size < 0 || f.Offset > maxRecord || f.Size > maxRecord {
		return f, errors.New("no name, offset or size")
	}
	return f, nil
}
