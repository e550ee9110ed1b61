package engine

// Stream is a standard stream of a process: standard input, output or error.
type Stream struct {
	Inode  uint64
	Device uint32 // of the file system, as in ExeFile
	Family Family // of a socket
	Type   StreamType
}

// Major returns the device's major number.
func (s *Stream) Major() uint32 { return majorOf(s.Device) }

// Minor returns the device's minor number.
func (s *Stream) Minor() uint32 { return minorOf(s.Device) }

// StreamType is the kind of file of a standard stream.
type StreamType uint8

// The types of streams.
const (
	StreamUnknown StreamType = iota
	StreamClosed             // the descriptor is closed
	StreamFile               // a regular file that is not a memfd
	StreamPipe               // a pipe, with or without a name
	StreamSocket
	StreamTTY   // a console, a serial line or a pseudoterminal
	StreamNull  // /dev/null
	StreamMemfd // a file made by memfd_create(2)
	StreamOther // a directory, another device, epoll(7), a pidfd ...
)

func (t StreamType) String() string {
	return nameOf(t, "", "closed", "file", "pipe", "socket", "tty", "null", "memfd", "other")
}

// Family is the address family of a socket: AF_UNIX, AF_INET and so on. 0 is none.
type Family uint16

var families = [...]string{1: "unix", 2: "inet", 10: "inet6", 15: "key", 16: "netlink", 17: "packet", 29: "can", 30: "tipc",
	31: "bluetooth", 38: "alg", 40: "vsock", 43: "smc", 44: "xdp"}

// String returns the name of the family, "" for none and "other" for a rare one.
func (f Family) String() string {
	if f == 0 || int(f) < len(families) && families[f] != "" {
		return families[f]
	}
	return "other"
}
