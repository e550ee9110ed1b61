package quark

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quark-linux/quark/engine"
)

// Names has the names of this host's users and groups, as /etc/passwd and /etc/group have them. It
// may be used from several goroutines.
type Names struct {
	users, groups nameFile
	// Ask, if not nil, returns the name of an id that the file of "passwd" or "group" does not
	// have. It is called once for each, in the background. Set it before the first use.
	Ask func(database, id string) string
}

// NewNames reads the two files. They are read again in the background when a name is asked for and
// they have changed, at most once a second, as long as they can be read.
func NewNames() *Names { return newNames("/etc/passwd", "/etc/group") }

func newNames(passwd, group string) *Names {
	n := &Names{users: nameFile{path: passwd, ids: 2}, groups: nameFile{path: group, ids: 1}}
	n.users.read()
	n.groups.read()
	return n
}

// User returns the name of a user id of p, "" if there is none. A nil p is one of the host.
//
// A container's ids belong to users of its own, which have no names here, unless it has a user
// namespace: then the host assigned the ids, and has names for them.
func (n *Names) User(p *Process, uid uint32) string { return n.users.name(p, uid, n.Ask) }

// Group returns the name of a group id of p, as User does for user ids.
func (n *Names) Group(p *Process, gid uint32) string { return n.groups.name(p, gid, n.Ask) }

// nameFile is a file of lines NAME:PASSWORD:ID:... that have at least so many ids.
type nameFile struct {
	path  string
	ids   int
	names atomic.Pointer[map[uint32]string]
	// seen is the file that was read, nil for none. Only the reader, which has set busy, uses
	// it.
	seen os.FileInfo
	busy atomic.Bool
	next atomic.Int64 // when to look at the file again, in Unix ns

	asked  sync.Map    // id -> name, as Ask returned it
	asking atomic.Bool // one at a time
}

// recheck is how long a file is taken to be as it was.
const recheck = time.Second

func (f *nameFile) name(p *Process, id uint32, ask func(database, id string) string) string {
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
		if name, ok := (*names)[id]; ok {
			return name
		}
	}
	if name, ok := f.asked.Load(id); ok {
		return name.(string)
	}
	if ask != nil && f.asking.CompareAndSwap(false, true) {
		go func() {
			defer f.asking.Store(false)
			f.asked.Store(id, ask(filepath.Base(f.path), strconv.FormatUint(uint64(id), 10)))
		}()
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
	names := parseNames(text, f.ids)
	// Changes made during the read are found the next time.
	f.seen = now
	f.names.Store(&names)
}

// parseNames returns the first name of each id, as getpwuid(3) and getgrgid(3) of glibc do with
// files. The lines have so many ids. Others have no effect.
func parseNames(text []byte, ids int) map[uint32]string {
	names := make(map[uint32]string)
lines:
	for line := range bytes.Lines(text) {
		line, _, _ = bytes.Cut(bytes.TrimRight(line, "\n"), []byte{0})
		fields := bytes.SplitN(bytes.TrimLeft(line, space), []byte(":"), 2+ids+1)
		if len(fields) < 2+ids || len(fields[0]) > 0 && bytes.ContainsAny(fields[0][:1], "#+-") {
			continue // a comment, or of NIS
		}
		for _, id := range fields[2 : 2+ids] {
			if _, ok := parseID(id); !ok {
				continue lines
			}
		}
		id, _ := parseID(fields[2])
		if _, ok := names[id]; !ok && id != 1<<32-1 { // which means none
			names[id] = string(fields[0])
		}
	}
	return names
}

const space = " \t\v\f\r" // isspace(3), within a line

// parseID parses an id as strtoul(3) does, but for negative ones, which it reports as no ids.
func parseID(text []byte) (id uint32, ok bool) {
	text = bytes.TrimPrefix(bytes.TrimLeft(text, space), []byte("+"))
	n, err := strconv.ParseUint(string(text), 10, 32)
	return uint32(n), err == nil
}
