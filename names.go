package quark

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/quark-linux/quark/engine"
)

// Names has the names of this host's users and groups, as /etc/passwd and /etc/group have them. It
// may be used from several goroutines.
type Names struct{ users, groups nameFile }

// NewNames reads the two files. They are read again in the background when a name is asked for and
// they have changed, at most once a second, as long as they can be read.
func NewNames() *Names { return newNames("/etc/passwd", "/etc/group") }

func newNames(passwd, group string) *Names {
	n := &Names{users: nameFile{path: passwd, colons: 6}, groups: nameFile{path: group, colons: 3}}
	n.users.read()
	n.groups.read()
	return n
}

// User returns the name of a user id of p, "" if there is none. A nil p is one of the host.
//
// The ids of a container's processes are those of users of its own, which have no names, unless it
// has a user namespace: then the host has given it ids, and knows whose they are.
func (n *Names) User(p *Process, uid uint32) string { return n.users.name(p, uid) }

// Group returns the name of a group id of p, as User that of a user id.
func (n *Names) Group(p *Process, gid uint32) string { return n.groups.name(p, gid) }

// nameFile is a file of lines NAME:PASSWORD:ID:... that have at least so many colons.
type nameFile struct {
	path   string
	colons int
	names  atomic.Pointer[map[uint32]string]
	// seen is which file was read, nil for none. It is the reader's, who has set busy.
	seen os.FileInfo
	busy atomic.Bool
	next atomic.Int64 // when to look at the file again, in Unix ns
}

// recheck is how long a file is taken to be as it was.
const recheck = time.Second

func (f *nameFile) name(p *Process, id uint32) string {
	if p != nil && !(p.Known.Has(FieldUserNS) && p.NS.User != engine.InitialUserNamespace) {
		if c, _ := p.Container(); c.ID != "" {
			return ""
		}
	}
	if now := time.Now().UnixNano(); now >= f.next.Load() && f.busy.CompareAndSwap(false, true) {
		f.next.Store(now + int64(recheck))
		go func() {
			defer f.busy.Store(false)
			f.read()
		}()
	}
	if names := f.names.Load(); names != nil {
		return (*names)[id]
	}
	return ""
}

// maxNameFile is how much of a file is read.
const maxNameFile = 64 << 20

// read reads the file if it is not the one that was read before. The names stay as they were if it
// can't be read, as after a change of the root directory.
func (f *nameFile) read() {
	now, err := os.Stat(f.path)
	if err != nil || f.seen != nil && os.SameFile(now, f.seen) && now.ModTime().Equal(f.seen.ModTime()) && now.Size() == f.seen.Size() {
		return
	}
	file, err := os.Open(f.path)
	if err != nil {
		return
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxNameFile))
	if err != nil {
		return
	}
	names := parseNames(text, f.colons)
	// What is written while it is read is found the next time.
	f.seen = now
	f.names.Store(&names)
}

// parseNames returns the first name of each id, as getpwuid(3) does. Other lines have no effect.
func parseNames(text []byte, colons int) map[uint32]string {
	names := make(map[uint32]string)
	for line := range bytes.Lines(text) {
		fields := bytes.SplitN(line, []byte(":"), 4)
		if bytes.Count(line, []byte(":")) < colons || len(fields[0]) == 0 || bytes.ContainsAny(fields[0][:1], "#+-") {
			continue // a comment, or of NIS
		}
		id, err := strconv.ParseUint(string(fields[2]), 10, 32)
		if err != nil || id == 1<<32-1 { // which means none
			continue
		}
		if _, ok := names[uint32(id)]; !ok {
			names[uint32(id)] = string(fields[0])
		}
	}
	return names
}
