package taskstats

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/backends/internal/taskrecord"
	"github.com/quark-linux/quark/engine"
)

// listener is the socket for the records of a CPU.
type listener struct {
	fd        int
	cpu       uint32
	base      uint32 // drops of the socket when it was opened
	told      uint64 // drops that gaps have told of
	congested bool   // it drops all until it is empty, as it reported an overrun
	from      uint64 // nothing of before is missing that no gap tells of
	seq       sequence
}

// possibleCPUs returns the CPUs that the kernel can ever have, from a list such as "0-3,8".
func possibleCPUs(list string) (cpus []uint32, err error) {
	const most = 1 << 16 // far above the kernel's largest NR_CPUS, 8192
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.ParseUint(from, 10, 16)
		last := first
		if isRange && err == nil {
			last, err = strconv.ParseUint(to, 10, 16)
		}
		if err != nil || last < first || len(cpus)+int(last-first) >= most {
			return nil, fmt.Errorf("read /sys/devices/system/cpu/possible: %q makes no sense", list)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, uint32(cpu))
		}
	}
	return cpus, nil
}

// listen opens a socket for each CPU. Those in the list are open also if there is an error.
func listen(k *taskrecord.Kernel, receiveBuffer int, now func() uint64) (all []listener, err error) {
	list, err := taskrecord.PossibleCPUs()
	if err != nil {
		return nil, err
	}
	cpus, err := possibleCPUs(list)
	if err != nil {
		return nil, err
	}
	for _, cpu := range cpus {
		l, err := listenTo(k, cpu, list, receiveBuffer)
		if err != nil {
			return all, err
		}
		l.from = now()
		all = append(all, l)
	}
	return all, nil
}

func listenTo(k *taskrecord.Kernel, cpu uint32, possible string, receiveBuffer int) (l listener, err error) {
	conn, err := taskrecord.Dial()
	if err != nil {
		return l, err
	}
	defer conn.Close()
	if l.fd, err = nlsocket.Duplicate(conn); err != nil {
		return l, err
	}
	l.cpu = cpu
	// At first the default size: an answer would not fit into a buffer that is full.
	err = nlsocket.SetReceiveBuffer(l.fd, max(receiveBuffer, defaultReceiveBuffer))
	l.base = nlsocket.Drops(l.fd)
	if err == nil {
		err = k.Register(conn, l.fd, nlsocket.NewBatch(1, taskrecord.MaxMessage), strconv.Itoa(int(cpu)), possible)
	}
	if err == nil && receiveBuffer < defaultReceiveBuffer {
		err = nlsocket.SetReceiveBuffer(l.fd, receiveBuffer)
	}
	if err != nil {
		unix.Close(l.fd)
	}
	return l, err
}

// dropped returns how many records the socket dropped.
func (l *listener) dropped() uint64 { return uint64(nlsocket.Drops(l.fd) - l.base) }

// gap returns the gap of what the socket dropped and no gap has told of, until a time.
func (l *listener) gap(now uint64) (g engine.Gap, ok bool) {
	dropped := l.dropped()
	if dropped <= l.told {
		return g, false
	}
	g = engine.Gap{Cause: engine.LossSocketFull, CPU: l.cpu, From: l.from, To: now, Count: dropped - l.told}
	l.told, l.from = dropped, now
	return g, true
}
