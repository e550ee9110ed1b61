package ecs_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/enginetest"
	"github.com/quark-linux/quark/exehash"
	"github.com/quark-linux/quark/export/ecs"
)

// A document of an EXEC has the SHA-256 of the executable, here of this test's.
func TestHash(t *testing.T) {
	contents, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/exe", &st); err != nil {
		t.Fatal(err)
	}
	q, err := quark.New(enginetest.NewMachine(), quark.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	p := &quark.Process{PID: uint32(os.Getpid())}
	p.Known = quark.SetOf(quark.FieldExeFile)
	p.ExeFile = quark.ExeFile{Device: uint32(st.Dev), Inode: st.Ino, Ctime: st.Ctim.Nano()}
	e := ecs.NewEncoder(q)
	e.Hashes = new(exehash.Cache)
	for events, want := range map[quark.Events]bool{quark.EventFork | quark.EventExec: true, quark.EventExit: false} {
		document := e.Append(nil, &quark.Event{Events: events, Process: p})
		hash := fmt.Sprintf(`"hash":{"sha256":"%x"}`, sha256.Sum256(contents))
		// The start of the process is unknown: the file may have changed since.
		if strings.Contains(string(document), hash) != want || strings.Contains(string(document), `"cached":["hash"]`) != want {
			t.Errorf("%v: %s", events, document)
		}
	}
}
