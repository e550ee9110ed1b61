package watch

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark"
)

// Events have their files, also after one that is not read in time.
func TestHasher(t *testing.T) {
	block := make(chan struct{})
	defer close(block)
	read := func(p *quark.Process) (f quark.File, err error) {
		switch p.PID {
		case 1:
			f.SHA256[0] = 0xab
		case 2:
			f = quark.File{TooLarge: true, Carried: true, HasCaps: true, Caps: quark.FileCaps{Permitted: 1, Inheritable: 2, Effective: true, Root: 3}}
		case 3:
			err = errors.New("no \"reason\"")
		case 4:
			<-block
		}
		return f, err
	}
	sum := "ab" + strings.Repeat("0", 62)
	for json, want := range map[bool][]string{
		true: {
			`{"a":0}`, `{"a":1,"file":{"sha256":"` + sum + `"}}`,
			`{"a":2,"file":{"too_large":true,"caps":{"permitted":"0000000000000001","inheritable":"0000000000000002","effective":true,"root_uid":3},"carried":true}}`,
			`{"a":3,"file":{"unknown":"no \"reason\""}}`, `{"a":4,"file":{"unknown":"its file system does not answer"}}`,
			`{"a":1,"file":{"sha256":"` + sum + `"}}`, `{"a":5}`,
		},
		false: {
			"", "  FILE\tsha256=" + sum,
			"  FILE\tsha256=? too_large=1 caps_permitted=0000000000000001 caps_inheritable=0000000000000002 caps_effective=true caps_root=3 carried=1",
			"  FILE\tsha256=? unknown=\"no \\\"reason\\\"\"", "  FILE\tsha256=? unknown=\"its file system does not answer\"",
			"  FILE\tsha256=" + sum, "",
		},
	} {
		var out bytes.Buffer
		h := newHasher(bufio.NewWriter(&out), json, func() { t.Error("failed") })
		h.read, h.limit = read, 100*time.Millisecond
		for _, pid := range []uint32{0, 1, 2, 3, 4, 1, 5} {
			p := &quark.Process{PID: pid}
			p.Known = quark.SetOf(quark.FieldExecutable)
			line := "{\"a\":" + string('0'+rune(pid)) + "}\n"
			if !json {
				line = ""
			}
			switch pid {
			case 0:
				p = nil
			case 5:
				p.Known = 0
			}
			if err := h.print([]byte(line), p); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.close(); err != nil {
			t.Fatal(err)
		}
		if !json {
			want = want[1 : len(want)-1]
		}
		if got := out.String(); got != strings.Join(want, "\n")+"\n" {
			t.Errorf("%s", got)
		}
	}
}

// Where no file system answers at all the events are printed nevertheless.
func TestHasherOfNothing(t *testing.T) {
	block := make(chan struct{})
	defer close(block)
	var out bytes.Buffer
	h := newHasher(bufio.NewWriter(&out), true, func() {})
	h.read, h.limit = func(*quark.Process) (quark.File, error) { <-block; return quark.File{}, nil }, time.Millisecond
	p := new(quark.Process)
	p.Known = quark.SetOf(quark.FieldExecutable)
	for range 1000 {
		if err := h.print([]byte("{}\n"), p); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.close(); err != nil || bytes.Count(out.Bytes(), []byte("does not answer")) != 1000 {
		t.Errorf("%v: %s", err, out.String())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

func TestHasherEndsIfItCannotPrint(t *testing.T) {
	failed := make(chan struct{})
	h := newHasher(bufio.NewWriter(broken{}), true, func() { close(failed) })
	h.print([]byte("{}\n"), nil)
	<-failed
	for {
		if err := h.print([]byte("{}\n"), nil); err != nil {
			return
		}
	}
}
