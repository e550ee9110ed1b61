package names

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// file is a file with lines NAME:PASSWORD:ID:..., such as /etc/passwd.
type file struct {
	path  string
	mu    sync.Mutex
	next  time.Time   // when to check the file again
	seen  os.FileInfo // of the file that was read, nil for none
	names map[uint32]string

	asked  map[uint32]string // as ask returned them
	asking bool              // one at a time
}

// recheck is the time for which a file is assumed to be unchanged.
const recheck = time.Second

// name returns the name of an id, or "". ask, if not nil, returns the name of an id that is not in
// the file. It is called once for each id, in the background.
func (f *file) name(id uint32, ask func(database, id string) string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.After(f.next) {
		f.next = now.Add(recheck)
		f.read()
	}
	name, known := f.names[id]
	if !known {
		name, known = f.asked[id]
	}
	if !known && ask != nil && !f.asking {
		f.asking = true
		go f.ask(id, ask)
	}
	return name
}

// ask stores the name that ask returns for an id.
func (f *file) ask(id uint32, ask func(database, id string) string) {
	name := ask(filepath.Base(f.path), strconv.FormatUint(uint64(id), 10))
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asking = false; f.asked == nil {
		f.asked = make(map[uint32]string)
	}
	f.asked[id] = name
}

// read reads the file if it has changed. If reading fails, as after a change of the root directory,
// the old names stay.
func (f *file) read() {
	now, err := os.Stat(f.path)
	if err != nil || f.seen != nil && os.SameFile(now, f.seen) && now.ModTime().Equal(f.seen.ModTime()) && now.Size() == f.seen.Size() {
		return
	}
	if text, err := os.ReadFile(f.path); err == nil {
		f.seen, f.names = now, parseNames(string(text))
	}
}

// parseNames returns the first name of each id. It skips comments and entries of NIS.
func parseNames(text string) map[uint32]string {
	names := make(map[uint32]string)
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 4)
		if len(fields) < 3 || strings.ContainsAny(fields[0], "#+") {
			continue
		}
		id, err := strconv.ParseUint(fields[2], 10, 32)
		if _, ok := names[uint32(id)]; err == nil && !ok {
			names[uint32(id)] = fields[0]
		}
	}
	return names
}
