package cnproc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/cputime"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
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
	batch   *batch
	family  uint16
	marked  bool          // records tell the process and its last thread
	kinds   engine.Fields // what this kernel counts
	records map[uint32]held
	ends    []ending // since the last match
	due     bool     // threads have ended since
	overran bool
	blind   uint64 // the latest time of ends that get no record
	drops   uint32 // of the socket when it was opened
	lost    uint64 // records that were given up
}

// held are the records of a number for which no end has come.
type held struct {
	last    used
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

// Those of ac_flag in the kernel's include/uapi/linux/acct.h.
const (
	flagForked = 0x01 // AFORK: it has not executed
	flagGroup  = 0x20 // AGROUP: the last thread of its process
)

const (
	versionTGID  = 12 // Linux 5.19
	versionMoved = 15 // Linux 6.14 and 6.15 have the members in other places
	sizeGenl     = 4  // struct genlmsghdr
	sizeStats    = int(unsafe.Sizeof(unix.Taskstats{}))
	minStats     = int(unsafe.Offsetof(unix.Taskstats{}.Cancelled_write_bytes))
	maxStats     = 4 << 10 // room for two struct taskstats, with what is to come
)

// openUsages listens to the ends of all threads.
func openUsages(receiveBuffer int) (*usages, error) {
	conn, err := netlink.Dial(unix.NETLINK_GENERIC, nil)
	if err != nil {
		return nil, fmt.Errorf("open a generic netlink socket: %w", err)
	}
	defer conn.Close()
	u := &usages{fd: -1, batch: newBatch(32, maxStats), records: make(map[uint32]held)}
	if err := u.find(conn); err != nil {
		return nil, err
	}
	if err := u.probe(conn); err != nil {
		return nil, err
	}
	if u.fd, err = duplicate(conn); err != nil {
		return nil, err
	}
	if err := u.register(conn, receiveBuffer); err != nil {
		u.close()
		return nil, err
	}
	return u, nil
}

func (u *usages) close() {
	u.lost = u.missing()
	unix.Close(u.fd) // the kernel forgets a listener that is gone
	u.fd = -1
}

// generic returns a message of generic netlink with one attribute.
func generic(family uint16, command uint8, attribute uint16, value []byte) (m netlink.Message, err error) {
	m.Header = netlink.Header{Type: netlink.HeaderType(family), Flags: netlink.Request}
	attributes, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: attribute, Data: value}})
	m.Data = append([]byte{command, 1, 0, 0}, attributes...)
	return m, err
}

// execute sends a request and returns the first answer, from its header of generic netlink on.
func execute(conn *netlink.Conn, m netlink.Message) ([]byte, error) {
	answers, err := conn.Execute(m)
	if err != nil {
		return nil, err
	}
	if len(answers) == 0 || len(answers[0].Data) < sizeGenl {
		return nil, errDecode
	}
	return answers[0].Data, nil
}

// find asks for the number of the family.
func (u *usages) find(conn *netlink.Conn) error {
	m, err := generic(unix.GENL_ID_CTRL, unix.CTRL_CMD_GETFAMILY, unix.CTRL_ATTR_FAMILY_NAME, []byte(unix.TASKSTATS_GENL_NAME+"\x00"))
	if err != nil {
		return err
	}
	answer, err := execute(conn, m)
	switch {
	case errors.Is(err, unix.ENOENT):
		return errors.New("the kernel has no CONFIG_TASKSTATS")
	case err != nil:
		return fmt.Errorf("ask for taskstats: %w", err)
	}
	for rest := answer[sizeGenl:]; ; {
		kind, data, next, ok := nextAttribute(rest)
		switch {
		case !ok:
			return fmt.Errorf("ask for taskstats: %w", errDecode)
		case kind == unix.CTRL_ATTR_FAMILY_ID && len(data) >= 2:
			u.family = binary.NativeEndian.Uint16(data)
			return nil
		}
		rest = next
	}
}

// probe reads the record of this thread, which shows what the kernel counts and where.
func (u *usages) probe(conn *netlink.Conn) error {
	pid := uint32(os.Getpid())
	m, err := generic(u.family, unix.TASKSTATS_CMD_GET, unix.TASKSTATS_CMD_ATTR_PID, binary.NativeEndian.AppendUint32(nil, pid))
	if err != nil {
		return err
	}
	answer, err := execute(conn, m)
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("read taskstats, which wants CAP_NET_ADMIN: %w", err)
	}
	if err != nil {
		return fmt.Errorf("read taskstats: %w", err)
	}
	var own, all unix.Taskstats
	if found, _ := statsOf(answer[sizeGenl:], &own, &all); !found {
		return fmt.Errorf("read taskstats: %w", errDecode)
	}
	u.marked = own.Version >= versionTGID
	if own.Version == versionMoved || own.Ac_pid != pid || own.Ac_ppid != uint32(os.Getppid()) || u.marked && own.Ac_tgid != pid {
		return fmt.Errorf("version %d of taskstats has another form", own.Version)
	}
	if own.Cpu_count > 0 {
		u.kinds = u.kinds.With(engine.FieldCPUTime)
	}
	if own.Hiwater_rss > 0 {
		u.kinds = u.kinds.With(engine.FieldPeakRSS)
		if _, err := os.Stat("/proc/self/io"); err == nil {
			u.kinds = u.kinds.With(engine.FieldIO)
		}
	}
	return nil
}

// lacks says why a kind of usage is unknown; "" if it is not.
func (u *usages) lacks(f engine.Field) string {
	if u.kinds.Has(f) {
		return ""
	}
	return "the kernel has no " + map[engine.Field]string{
		engine.FieldCPUTime: "CONFIG_TASK_DELAY_ACCT, or is told not to account (nodelayacct)",
		engine.FieldPeakRSS: "CONFIG_TASK_XACCT",
		engine.FieldIO:      "CONFIG_TASK_IO_ACCOUNTING",
	}[f]
}

// register makes the socket a listener of all CPUs. An answer would come between the first
// records: the kernel answers within the request, and only if there is an error.
func (u *usages) register(conn *netlink.Conn, receiveBuffer int) error {
	if err := setReceiveBuffer(u.fd, receiveBuffer); err != nil {
		return err
	}
	cpus, err := os.ReadFile("/sys/devices/system/cpu/possible")
	if err != nil {
		return err
	}
	m, err := generic(u.family, unix.TASKSTATS_CMD_GET, unix.TASKSTATS_CMD_ATTR_REGISTER_CPUMASK,
		[]byte(strings.TrimSpace(string(cpus))+"\x00"))
	if err != nil {
		return err
	}
	u.drops = drops(u.fd)
	if _, err := conn.Send(m); err != nil {
		return fmt.Errorf("listen to taskstats: %w", err)
	}
	if errno := u.batch.receive(u.fd); errno == 0 {
		answer, _ := u.batch.message(0)
		if len(answer) >= sizeNlmsghdr+4 && netlink.HeaderType(binary.NativeEndian.Uint16(answer[4:])) == netlink.Error {
			errno := unix.Errno(-int32(binary.NativeEndian.Uint32(answer[sizeNlmsghdr:])))
			return fmt.Errorf("listen to taskstats, which is for the initial user and pid namespace: %w", errno)
		}
	}
	return nil
}

// used is what the kernel tells of a thread that has ended.
type used struct {
	number         uint32 // of its process if records are marked, else its own
	skip           bool   // it is not of the last thread
	usage          engine.Usage
	known, carried engine.Fields
}

// decode decodes a message.
func (r *used) decode(b []byte, u *usages) error {
	if len(b) < sizeNlmsghdr+sizeGenl || binary.NativeEndian.Uint16(b[4:]) != u.family || b[sizeNlmsghdr] != unix.TASKSTATS_CMD_NEW {
		return errDecode
	}
	n := binary.NativeEndian.Uint32(b)
	if n < sizeNlmsghdr+sizeGenl || uint64(n) > uint64(len(b)) {
		return errDecode
	}
	var own, all unix.Taskstats
	found, several := statsOf(b[sizeNlmsghdr+sizeGenl:n], &own, &all)
	*r = used{number: own.Ac_pid}
	if u.marked {
		r.number, r.skip = own.Ac_tgid, own.Ac_flag&flagGroup == 0
	}
	if !found || r.number == 0 {
		return errDecode
	}
	times := &own
	if several {
		times = &all
	}
	// The sums over several threads have both times on new kernels only.
	if times.Cpu_count > 0 && (times.Ac_utime != 0 || times.Ac_stime != 0 || times.Cpu_run_real_total == 0) {
		r.known |= engine.FieldCPUTime.Set()
		t := cputime.Times{Run: times.Cpu_run_virtual_total, User: times.Ac_utime * 1000, System: times.Ac_stime * 1000}
		r.usage.UserTime, r.usage.SystemTime = t.Divide()
		// The kernel's division does not go back from what it has shown somebody before,
		// which is not known. Each thread's time is as of its end.
		if t.System != 0 || several {
			r.carried |= engine.FieldCPUTime.Set()
		}
	}
	r.known |= engine.FieldPeakRSS.Set()
	r.usage.PeakRSS = own.Hiwater_rss << 10
	if own.Ac_flag&flagForked == 0 { // an image of before may have had more
		r.carried |= engine.FieldPeakRSS.Set()
	}
	if !several {
		r.known |= engine.FieldIO.Set()
		r.usage.RChar, r.usage.WChar = own.Read_char, own.Write_char
		r.usage.ReadBytes, r.usage.WriteBytes = own.Read_bytes, own.Write_bytes
	}
	r.known &= u.kinds
	r.carried &= u.kinds
	return nil
}

// statsOf finds the records of a thread and of its process among attributes.
func statsOf(b []byte, own, all *unix.Taskstats) (found, several bool) {
	for {
		kind, data, next, ok := nextAttribute(b)
		if !ok {
			return found, several
		}
		switch b = next; kind {
		case unix.TASKSTATS_TYPE_AGGR_PID:
			found = setStats(own, data)
		case unix.TASKSTATS_TYPE_AGGR_TGID:
			several = setStats(all, data)
		}
	}
}

// setStats sets s to the structure among the attributes of b, and reports whether there is one.
// That of an older kernel is shorter: the rest is 0.
func setStats(s *unix.Taskstats, b []byte) bool {
	for {
		kind, data, next, ok := nextAttribute(b)
		if !ok {
			return false
		}
		if kind == unix.TASKSTATS_TYPE_STATS {
			*s = unix.Taskstats{}
			copy((*[sizeStats]byte)(unsafe.Pointer(s))[:], data)
			return len(data) >= minStats
		}
		b = next
	}
}

// nextAttribute returns the first attribute of b, and what follows it.
func nextAttribute(b []byte) (kind uint16, data, next []byte, ok bool) {
	const header, typeMask, alignment = 4, 1<<14 - 1, 4
	if len(b) < header {
		return 0, nil, nil, false
	}
	n := int(binary.NativeEndian.Uint16(b))
	if n < header || n > len(b) {
		return 0, nil, nil, false
	}
	return binary.NativeEndian.Uint16(b[2:]) & typeMask, b[header:n], b[min((n+alignment-1)&^(alignment-1), len(b)):], true
}

// born forgets a record of the thread that had a number before.
func (u *usages) born(number uint32, time uint64) {
	if h, ok := u.records[number]; ok && h.time < time {
		delete(u.records, number)
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
	case f.thread && u.marked:
		return
	case f.thread:
		e.number, e.ev = f.m.tid, nil
	case !u.marked && (f.m.tid != f.m.pid || f.m.threads):
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
		if h, ok := u.records[e.number]; ok {
			h.ends += e.ends
			u.records[e.number] = h
		}
	}
	for _, e := range u.ends {
		h := u.records[e.number]
		if ev := e.ev; h.records == 1 && h.ends == 1 && ev != nil && ev.Kind == engine.KindExit && ev.Time > u.blind {
			ev.Usage = h.last.usage
			ev.Task.Known |= h.last.known
			ev.Task.Carried |= h.last.carried
			ev.Task.Truncated |= h.last.known & engine.FieldIO.Set() // whole KiB
		}
	}
	for _, e := range u.ends {
		delete(u.records, e.number)
	}
	clear(u.ends)
	u.ends = u.ends[:0]
}

func (u *usages) receive() {
	for {
		switch u.batch.receive(u.fd) {
		case 0:
			for now := clock.Monotonic(); u.batch.next < u.batch.n; u.batch.next++ {
				if data, genuine := u.batch.message(u.batch.next); genuine {
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
	var r used
	if r.decode(data, u) != nil {
		u.lost++
		return
	}
	if r.skip {
		return
	}
	if len(u.records) >= maxHeld {
		u.lose(now)
	}
	h := u.records[r.number]
	h.last, h.time = r, now
	h.records++
	u.records[r.number] = h
}

// lose gives up the records that are held: others of their numbers may be lost.
func (u *usages) lose(now uint64) {
	u.lost += uint64(len(u.records))
	clear(u.records)
	u.blind = now + maxStraggle
}

// missing returns how many records were lost.
func (u *usages) missing() uint64 {
	if u.fd < 0 {
		return u.lost
	}
	return uint64(drops(u.fd)-u.drops) + u.lost
}
