package source

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

func TestStream(t *testing.T) {
	for _, c := range []struct {
		file File
		want engine.StreamType
	}{
		{File{}, engine.StreamClosed},
		{File{Mode: unix.S_IFREG}, engine.StreamFile},
		{File{Mode: unix.S_IFREG, Unlisted: true}, engine.StreamFile},
		{File{Mode: unix.S_IFREG, Unlisted: true, Magic: unix.TMPFS_MAGIC}, engine.StreamMemfd},
		{File{Mode: unix.S_IFREG, Unlisted: true, Magic: unix.HUGETLBFS_MAGIC}, engine.StreamMemfd},
		{File{Mode: unix.S_IFREG, Magic: unix.TMPFS_MAGIC}, engine.StreamFile},
		{File{Mode: unix.S_IFREG, Magic: unix.ANON_INODE_FS_MAGIC}, engine.StreamOther},
		{File{Mode: unix.S_IFREG, Magic: unix.PID_FS_MAGIC}, engine.StreamOther},
		{File{Mode: 0o600, Magic: unix.ANON_INODE_FS_MAGIC}, engine.StreamOther},
		{File{Mode: unix.S_IFDIR}, engine.StreamOther},
		{File{Mode: unix.S_IFBLK, Rdev: 1<<20 | 3}, engine.StreamOther},
		{File{Mode: unix.S_IFIFO}, engine.StreamPipe},
		{File{Mode: unix.S_IFSOCK, Magic: unix.SOCKFS_MAGIC, Family: 1}, engine.StreamSocket},
		{File{Mode: unix.S_IFSOCK, Magic: unix.TMPFS_MAGIC}, engine.StreamOther},
		{File{Mode: unix.S_IFCHR, Rdev: 1<<20 | 3}, engine.StreamNull},
		{File{Mode: unix.S_IFCHR, Rdev: 1<<20 | 5}, engine.StreamOther},
		{File{Mode: unix.S_IFCHR, Rdev: 5 << 20}, engine.StreamTTY},
		{File{Mode: unix.S_IFCHR, Rdev: 143<<20 | 7}, engine.StreamTTY},
	} {
		if got := c.file.Stream().Type; got != c.want {
			t.Errorf("%+v: got %q, want %q", c.file, got, c.want)
		}
	}
}
