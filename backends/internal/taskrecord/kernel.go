package taskrecord

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/kernelsocket"
)

// Kernel is what taskstats of the running kernel is like.
type Kernel struct {
	Family  uint16 // its number in generic netlink
	Version uint16
	Marked  bool          // records tell the process and its last thread: Linux 5.19
	Kinds   engine.Fields // those of engine.FieldsUsage that are counted
}

// MaxMessage is more than the length of a message, which has up to two struct taskstats.
const MaxMessage = 4 << 10

const (
	minVersion   = 8  // Linux 2.6.32, which has all members that are read of any
	versionTGID  = 12 // Linux 5.19
	versionMoved = 15 // Linux 6.14 and 6.15 have the members in other places
)

var errDecode = errors.New("decode taskstats: invalid message")

// Probe asks for the family, and for the record of this thread, which shows what the kernel counts
// and where.
func Probe(conn *netlink.Conn) (k Kernel, err error) {
	if err := k.find(conn); err != nil {
		return k, err
	}
	return k, k.probe(conn)
}

// Dial opens a socket of generic netlink to which the kernel alone can send: others can be sent to
// by any process of the network namespace.
func Dial() (*netlink.Conn, error) {
	conn, err := kernelsocket.Dial(unix.NETLINK_GENERIC)
	if err != nil {
		return nil, fmt.Errorf("open a generic netlink socket: %w", err)
	}
	return conn, nil
}

// request returns a message of generic netlink with one attribute.
func request(family uint16, command uint8, attribute uint16, value []byte) (m netlink.Message, err error) {
	m.Header = netlink.Header{Type: netlink.HeaderType(family), Flags: netlink.Request}
	attributes, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: attribute, Data: value}})
	m.Data = append([]byte{command, 1, 0, 0}, attributes...)
	return m, err
}

// execute sends a request and returns the answer, from its header of generic netlink on. Records
// can come before it: the kernel notices that a listener is gone when it has one for it, and until
// then a new socket can have its number.
func execute(conn *netlink.Conn, m netlink.Message) ([]byte, error) {
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return nil, err
	}
	sent, err := conn.Send(m)
	if err != nil {
		return nil, err
	}
	for {
		messages, err := conn.Receive()
		if errors.Is(err, unix.ENOBUFS) {
			continue // records did not fit; the answer can be behind them
		}
		if err != nil {
			return nil, err
		}
		for i := range messages {
			switch answer := &messages[i]; {
			case answer.Header.Sequence != sent.Header.Sequence || answer.Header.PID != sent.Header.PID:
			case len(answer.Data) < sizeGenl:
				return nil, errDecode
			default:
				return answer.Data, nil
			}
		}
	}
}

// find asks for the number of the family.
func (k *Kernel) find(conn *netlink.Conn) error {
	m, err := request(unix.GENL_ID_CTRL, unix.CTRL_CMD_GETFAMILY, unix.CTRL_ATTR_FAMILY_NAME, []byte(unix.TASKSTATS_GENL_NAME+"\x00"))
	if err != nil {
		return err
	}
	answer, err := execute(conn, m)
	switch {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("the kernel has no CONFIG_TASKSTATS: %w", errors.ErrUnsupported)
	case err != nil:
		return fmt.Errorf("ask for taskstats: %w", err)
	}
	for rest := answer[sizeGenl:]; ; {
		kind, data, next, ok := nextAttribute(rest)
		switch {
		case !ok:
			return fmt.Errorf("ask for taskstats: %w", errDecode)
		case kind == unix.CTRL_ATTR_FAMILY_ID && len(data) >= 2:
			k.Family = binary.NativeEndian.Uint16(data)
			return nil
		}
		rest = next
	}
}

// probe reads the record of this thread.
func (k *Kernel) probe(conn *netlink.Conn) error {
	pid := uint32(os.Getpid())
	m, err := request(k.Family, unix.TASKSTATS_CMD_GET, unix.TASKSTATS_CMD_ATTR_PID, binary.NativeEndian.AppendUint32(nil, pid))
	if err != nil {
		return err
	}
	answer, err := execute(conn, m)
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("read taskstats, which wants CAP_NET_ADMIN in the initial user namespace: %w", err)
	}
	if err != nil {
		return fmt.Errorf("read taskstats: %w", err)
	}
	var own, all stats
	if found, _ := statsOf(answer[sizeGenl:], &own, &all); !found {
		return fmt.Errorf("read taskstats: %w", errDecode)
	}
	return k.accept(&own.Taskstats, pid, uint32(os.Getppid()))
}

// accept takes the record of the process pid of that parent as what records are like.
func (k *Kernel) accept(own *unix.Taskstats, pid, ppid uint32) error {
	k.Version, k.Marked = own.Version, own.Version >= versionTGID
	if own.Version < minVersion || own.Version == versionMoved || own.Ac_pid != pid || own.Ac_ppid != ppid || k.Marked && own.Ac_tgid != pid {
		return fmt.Errorf("version %d of taskstats has another form (Linux 6.14 and 6.15 have): %w", own.Version, errors.ErrUnsupported)
	}
	if own.Cpu_count > 0 {
		k.Kinds = k.Kinds.With(engine.FieldCPUTime)
	}
	if own.Hiwater_rss > 0 {
		k.Kinds = k.Kinds.With(engine.FieldPeakRSS)
		if _, err := os.Stat("/proc/self/io"); err == nil {
			k.Kinds = k.Kinds.With(engine.FieldIO)
		}
	}
	return nil
}

// Lacks says why a kind of usage is unknown; "" if it is not.
func (k *Kernel) Lacks(f engine.Field) string {
	if k.Kinds.Has(f) {
		return ""
	}
	return "the kernel has no " + map[engine.Field]string{
		engine.FieldCPUTime: "CONFIG_TASK_DELAY_ACCT, or is told not to account (nodelayacct)",
		engine.FieldPeakRSS: "CONFIG_TASK_XACCT",
		engine.FieldIO:      "CONFIG_TASK_IO_ACCOUNTING",
	}[f]
}

// Register makes a socket, which has the duplicate descriptor fd, a listener of CPUs, a list such
// as "0-3,8", of the possible ones. The kernel forgets a listener that is gone when it has a record
// for it; a socket that has the number of one until then would be a listener of its CPUs, too. An
// answer would come between the first records: the kernel answers within the request, and only if
// there is an error.
func (k *Kernel) Register(conn *netlink.Conn, fd int, batch *nlsocket.Batch, cpus, possible string) error {
	if err := k.send(conn, unix.TASKSTATS_CMD_ATTR_DEREGISTER_CPUMASK, possible); err != nil {
		return err
	}
	for batch.Receive(fd) == 0 { // also what is wrong, which the next answer says again
		batch.Next = batch.N
	}
	if err := k.send(conn, unix.TASKSTATS_CMD_ATTR_REGISTER_CPUMASK, cpus); err != nil {
		return err
	}
	if errno := batch.Receive(fd); errno == 0 {
		answer, _ := batch.Message(0)
		if len(answer) >= sizeNlmsghdr+4 && netlink.HeaderType(binary.NativeEndian.Uint16(answer[4:])) == netlink.Error {
			errno := unix.Errno(-int32(binary.NativeEndian.Uint32(answer[sizeNlmsghdr:])))
			if errno == unix.EPERM {
				return fmt.Errorf("listen to taskstats, which wants CAP_NET_ADMIN: %w", errno)
			}
			return fmt.Errorf("listen to taskstats, which is for the initial user and pid namespace: %w", errno)
		}
	}
	return nil
}

// send sends a request that is about a list of CPUs.
func (k *Kernel) send(conn *netlink.Conn, attribute uint16, cpus string) error {
	m, err := request(k.Family, unix.TASKSTATS_CMD_GET, attribute, []byte(cpus+"\x00"))
	if err == nil {
		_, err = conn.Send(m)
	}
	if err != nil {
		return fmt.Errorf("listen to taskstats: %w", err)
	}
	return nil
}

// PossibleCPUs returns the list of the CPUs that the kernel can ever have.
func PossibleCPUs() (string, error) {
	list, err := os.ReadFile("/sys/devices/system/cpu/possible")
	return strings.TrimSpace(string(list)), err
}
