package line

import (
	"errors"
	"os/user"
	"strconv"
	"sync"
	"time"
)

// Users has the names of this host's users. They are looked up in the background, and again after
// a minute.
type Users struct {
	lookup   func(uid uint32) (string, error)
	patience time.Duration // for a first lookup
	mu       sync.Mutex
	names    map[uint32]*name
	busy     int  // lookups that run
	slow     bool // the last one waited for did not end in time
}

type name struct {
	text  string // "" if there is none
	until time.Time
	done  chan struct{} // closed after the first lookup
	busy  bool
}

const (
	fresh     = time.Minute
	maxUsers  = 4096
	maxLookup = 8 // at a time
)

// NewUsers returns the users of os/user: those of /etc/passwd, in a program without cgo.
func NewUsers() *Users { return newUsers(lookup, 20*time.Millisecond) }

func newUsers(lookup func(uint32) (string, error), patience time.Duration) *Users {
	return &Users{lookup: lookup, patience: patience, names: make(map[uint32]*name)}
}

// lookup returns the name of a user, "" if there is none.
func lookup(uid uint32) (string, error) {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if none := user.UnknownUserIdError(0); errors.As(err, &none) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	return u.Username, nil
}

// Name returns the name of a user, "" if there is none, or none yet. It waits only for the first
// lookup of each user, shortly, and not while one takes longer.
func (u *Users) Name(uid uint32) string {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	n := u.names[uid]
	if n == nil {
		if len(u.names) >= maxUsers {
			clear(u.names)
		}
		n = &name{done: make(chan struct{})}
		u.names[uid] = n
	}
	if !n.busy && u.busy < maxLookup && now.After(n.until) {
		n.busy = true
		u.busy++
		go u.refresh(uid, n)
	}
	if n.busy && n.until.IsZero() && !u.slow {
		u.mu.Unlock()
		select {
		case <-n.done:
		case <-time.After(u.patience):
		}
		u.mu.Lock()
		u.slow = n.until.IsZero()
	}
	return n.text
}

// refresh looks a name up. It stays as it was if it can't be looked up, as after a change of root.
func (u *Users) refresh(uid uint32, n *name) {
	text, err := u.lookup(uid)
	u.mu.Lock()
	defer u.mu.Unlock()
	if err == nil {
		n.text = text
	}
	if n.until.IsZero() {
		close(n.done)
	}
	n.until, n.busy = time.Now().Add(fresh), false
	u.busy--
	u.slow = false
}
