package main

import (
	"strings"
	"testing"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/enginetest"
)

// The machine is made up: the test needs no kernel and no root.
func TestAlert(t *testing.T) {
	m := enginetest.NewMachine()
	m.Running("/usr/sbin/sshd").Fork().Exec("/bin/sh")
	worker := m.Running("/usr/sbin/nginx").Fork().SetUID(33)
	worker.Fork().Exec("/bin/sh", "-c", "id").Exit(0)
	worker.Fork().Exec("/usr/bin/php").Fork().Exec("/bin/bash", "-i")
	m.Running("/bin/login").Fork().Exec("/usr/sbin/apache2").Fork().Exec("/usr/bin/dash").Exit(1)
	reverse := m.Running("/usr/bin/python3").Fork()
	reverse.State.Task.Known = reverse.State.Task.Known.With(quark.FieldStdio)
	reverse.State.Task.Stdio[0] = quark.Stream{Type: quark.StreamSocket, Family: 2}
	reverse.Exec("/bin/sh", "-i").Exit(0)
	where, err := quark.ParseRules(rules)
	if err != nil {
		t.Fatal(err)
	}
	q, err := quark.New(m, quark.Options{Where: where})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	var out strings.Builder
	if err := alert(t.Context(), q, &out); err != nil {
		t.Fatal(err)
	}
	want := "[web-shell] /bin/sh -c id\n[web-shell] /bin/bash -i\n[web-shell] /usr/bin/dash\n[reverse-shell] /bin/sh -i\n"
	var got strings.Builder
	for line := range strings.Lines(out.String()) {
		rule, rest, _ := strings.Cut(line, ": pid ")
		_, args, _ := strings.Cut(rest, ": ")
		got.WriteString(rule + " " + args)
	}
	if got.String() != want {
		t.Errorf("%s\nand not\n%s", &out, want)
	}
}
