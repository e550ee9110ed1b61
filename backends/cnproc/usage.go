package cnproc

import (
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/backends/internal/taskrecord"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/stock"
)

// usages adds to the ends of processes what these have used, from taskstats: the kernel sends a
// record to its listeners for each thread that ends, before that thread makes its message for the
// connector. So once the message is received the record is in the socket, unless that has dropped
// it, and no event waits for it.
//
// From Linux 5.19 on a record has the number of its process, and tells whether it is of the last
// thread. Before, only the record of a process that never had other threads can be told.
//
// A record has no stamp. It is that of an end if the number has no other record and no other end
// that nothing has been found for. After a loss of records, ends of the next second have none.
type usages struct {
	fd      int
	batch   *nlsocket.Batch
	kernel  taskrecord.Kernel
	records stock.Map[uint32, held]
	ends    []ending // since the last match
	due     bool     // threads have ended since
	overran bool
	blind   uint64 // the latest time of ends that get no record
	drops   uint32 // of the socket when it was opened
	lost    uint64 // records that were given up
}

// held are the records of a number for which no end has come.
type held struct {
	last    taskrecord.Record
	time    uint64 // when that was received
	records int
	ends    int
}

// ending is an end that is to get a record.
type ending struct {
	number uint32
	ends   int              // how many the message can stand for
	ev     *engine.RawEvent // nil if it gets none
}

// maxHeld bounds the records for which no end has come.
const maxHeld = 1 << 14

// openUsages listens to the ends of all threads.
func openUsages(receiveBuffer int) (*usages, error) {
	conn, err := taskrecord.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	u := &usages{fd: -1, batch: nlsocket.NewBatch(32, taskrecord.MaxMessage)}
	if u.kernel, err = taskrecord.Probe(conn); err != nil {
		return nil, err
	}
	if u.fd, err = nlsocket.Duplicate(conn); err != nil {
		return nil, err
	}
	if err := u.register(conn, receiveBuffer); err != nil {
		u.close()
		return nil, err
	}
	return u, nil
}

// register makes the socket a listener of all CPUs.
func (u *usages) register(conn *netlink.Conn, receiveBuffer int) error {
	if err := nlsocket.SetReceiveBuffer(u.fd, receiveBuffer); err != nil {
		return err
	}
	cpus, err := taskrecord.PossibleCPUs()
	if err != nil {
		return err
	}
	u.drops = nlsocket.Drops(u.fd)
	return u.kernel.Register(conn, u.fd, u.batch, cpus, cpus)
}

func (u *usages) close() {
	u.lost = u.missing()
	unix.Close(u.fd) // the kernel forgets a listener that is gone
	u.fd = -1
}

// born forgets a record of the thread that had a number before.
func (u *usages) born(number uint32, time uint64) {
	if h, ok := u.records.In[number]; ok && h.time < time {
		delete(u.records.In, number)
	}
}

// take notes that match is to look for the record of a fact, whose event is ev, nil for none.
func (u *usages) take(f *fact, ev *engine.RawEvent) {
	if f.m == nil || f.kind != engine.KindExit && f.kind != engine.KindGap {
		return
	}
	u.due = true
	e := ending{f.m.pid, 1, ev}
	switch {
	case f.gone, f.kind == engine.KindGap: // others of the number have ended, or will
		e.ends, e.ev = 2, nil
	case f.thread && u.kernel.Marked:
		return
	case f.thread:
		e.number, e.ev = f.m.tid, nil
	case !u.kernel.Marked && (f.m.tid != f.m.pid || f.m.threads):
		e.ev = nil
	}
	u.ends = append(u.ends, e)
}

// match receives the records of all threads whose messages were received, and adds them to the
// ends.
func (u *usages) match() {
	if !u.due {
		return
	}
	u.due = false
	u.receive()
	for _, e := range u.ends {
		if h, ok := u.records.In[e.number]; ok {
			h.ends += e.ends
			u.records.Put(e.number, h)
		}
	}
	for _, e := range u.ends {
		h := u.records.In[e.number]
		if ev := e.ev; h.records == 1 && h.ends == 1 && ev != nil && ev.Kind == engine.KindExit && ev.Time > u.blind {
			h.last.SetUsage(ev)
		}
	}
	for _, e := range u.ends {
		delete(u.records.In, e.number)
	}
	clear(u.ends)
	u.ends = u.ends[:0]
}

func (u *usages) receive() {
	for {
		switch u.batch.Receive(u.fd) {
		case 0:
			for now := clock.Monotonic(); u.batch.Next < u.batch.N; u.batch.Next++ {
				if data, genuine := u.batch.Message(u.batch.Next); genuine {
					u.add(data, now)
				}
			}
		case unix.EINTR:
		case unix.ENOBUFS:
			u.overran = true // it drops all until it is empty
		case unix.EAGAIN:
			if u.overran {
				u.overran = false
				u.lose(clock.Monotonic())
			}
			return
		default: // no memory
			u.lose(clock.Monotonic())
			return
		}
	}
}

// add adds a record that was received at a time.
func (u *usages) add(data []byte, now uint64) {
	var r taskrecord.Record
	if r.Decode(data, &u.kernel) != nil {
		u.lost++
		return
	}
	number := r.PID
	if u.kernel.Marked {
		if number = r.TGID; !r.Last {
			return
		}
	}
	if len(u.records.In) >= maxHeld {
		u.lose(now)
	}
	h := u.records.In[number]
	h.last, h.time = r, now
	h.records++
	u.records.Put(number, h)
}

// lose gives up the records that are held: others of their numbers may be lost.
func (u *usages) lose(now uint64) {
	u.lost += uint64(len(u.records.In))
	clear(u.records.In)
	u.blind = now + maxStraggle
}

// missing returns how many records were lost.
func (u *usages) missing() uint64 {
	if u.fd < 0 {
		return u.lost
	}
	return uint64(nlsocket.Drops(u.fd)-u.drops) + u.lost
}
