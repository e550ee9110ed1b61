package webshell

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/enginetest"
)

func TestFind(t *testing.T) {
	for name, tc := range map[string]struct {
		happens func(*enginetest.Machine)
		want    []string
	}{
		"from ssh": {func(m *enginetest.Machine) { m.Running("/usr/sbin/sshd").Fork().Exec("/bin/sh") }, nil},
		"of a worker": {func(m *enginetest.Machine) {
			m.Running("/usr/sbin/nginx").Fork().SetUID(33).Fork().Exec("/bin/sh", "-c", "id").Exit(0)
		}, []string{"/bin/sh of nginx, uid 33, parent 3"}},
		"of a new server": {func(m *enginetest.Machine) {
			m.Running("/bin/login").Fork().Exec("/usr/sbin/apache2").Fork().Exec("/usr/bin/dash")
		}, []string{"/usr/bin/dash of apache2, uid 0, parent 3"}},
		"of a worker that has ended": {func(m *enginetest.Machine) {
			worker := m.Running("/usr/sbin/nginx").Fork()
			child := worker.Fork()
			worker.Kill(11)
			m.Sleep(3 * time.Second)
			child.Exec("/bin/bash")
		}, []string{"/bin/bash of nginx, uid 0, parent 1"}},
		"of another program of the worker": {func(m *enginetest.Machine) {
			m.Running("/usr/sbin/nginx").Fork().Fork().Exec("/usr/bin/php").Fork().Exec("/bin/sh")
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := enginetest.NewMachine()
			tc.happens(m)
			q, err := quark.New(m, quark.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			var got []string
			for found, err := range Find(t.Context(), q) {
				if err != nil {
					t.Fatal(err)
				}
				s := found.Shell
				got = append(got, fmt.Sprintf("%s of %s, uid %d, parent %d", s.Image.Exe, found.Server.Comm, s.Cred.UID, s.PPID))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("found %q, not %q", got, tc.want)
			}
		})
	}
}
