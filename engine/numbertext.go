package engine

import (
	"fmt"
	"strings"

	"github.com/quark-linux/quark/engine/schema"
)

// NumberText returns the text of a field that consists of numbers. Equal values have equal texts.
// ok is false for a field that is a text. A start time is in units of [ProcStartUnit], the
// precision of /proc.
func (t *Task) NumberText(f Field) (text string, ok bool) {
	switch f {
	case FieldStart:
		return fmt.Sprint(t.Start / ProcStartUnit), true
	case FieldExit:
		return fmt.Sprintf("%#x", t.Exit.WaitStatus), true
	case FieldExeFile:
		x := &t.ExeFile
		return fmt.Sprintf("%d:%d %d %d %o %d %d %t", x.Major(), x.Minor(), x.Inode, x.Ctime, x.Mode, x.UID, x.GID, x.Removed), true
	}
	if !AllFields.Has(f) || (textFields | FieldsUsage).Has(f) {
		return "", false
	}
	p := Process{Task: *t}
	var words []string
	for i := range rows {
		switch r := &rows[i]; {
		case r.Fields != f.Set():
		case r.Shape == schema.Hex:
			words = append(words, fmt.Sprintf("%016x", r.Number(&p)))
		default:
			words = append(words, string(r.appendWord(nil, &p, nil)))
		}
	}
	return strings.Join(words, " "), true
}
