package procfs

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

func TestEachMount(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mountinfo")
	if err := os.WriteFile(path, []byte("21 1 0:5 / / rw\n4096 21 0:6 / /a\\0402 rw - tmpfs 7\n9 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for size := 1; size < 60; size++ {
		fd, err := unix.Open(path, unix.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		var ids []uint64
		eachMount(fd, make([]byte, size), func(id uint64) { ids = append(ids, id) })
		unix.Close(fd)
		if !slices.Equal(ids, []uint64{21, 4096, 9}) {
			t.Fatalf("buffer of %d bytes: got mount ids %v", size, ids)
		}
	}
}

// The working directory on a mount below the root is known. It is unknown after the mount is
// detached.
func TestDetachedMount(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	onThread(func() { // the thread exits, and its mount namespace with it
		own, err := Open()
		if err != nil {
			t.Error(err)
			return
		}
		defer own.Close()
		must := func(what string, err error) {
			if err != nil {
				t.Errorf("%s: %v", what, err)
				runtime.Goexit()
			}
		}
		must("unshare", unix.Unshare(unix.CLONE_NEWNS))
		must("private", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		inside, err := Open()
		must("open", err)
		defer inside.Close()
		// This thread opened the descriptor: /proc/self shows the namespace of the process.
		unix.Close(inside.own.fd)
		inside.own.fd, err = unix.Open("/proc/thread-self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		must("mountinfo", err)
		known := func(want bool) {
			for name, r := range map[string]*Reader{"this": inside, "another": own} {
				var ev engine.RawEvent
				if _, err := r.Read(uint32(unix.Gettid()), engine.FieldCwd.Set(), &ev); err != nil {
					t.Error(err)
				}
				if got := ev.Task.Known.Has(engine.FieldCwd); got != want {
					t.Errorf("process of %s namespace: got known %v, want %v: %q", name, got, want, ev.Bytes(engine.FieldCwd))
				}
			}
		}
		known(true)
		must("bind", unix.Mount(dir, dir, "", unix.MS_BIND, ""))
		must("chdir", unix.Chdir(dir))
		known(true)
		must("umount", unix.Unmount(dir, unix.MNT_DETACH))
		known(false)
	})
}

// onThread runs f on a new thread that is not the leader.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			onThread(f)
			runtime.UnlockOSThread()
			return
		}
		f()
	}()
	<-done
}
