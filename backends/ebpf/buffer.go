package ebpf

// buffer is the reader's end of what the programs write their records to: the ring, or perf
// buffers.
type buffer interface {
	// FD polls readable after the programs have woken the reader.
	FD() int

	// next returns the next record, valid until the next call of another method, or nil if
	// there is no complete one. An empty one stands for what makes no sense.
	next() []byte

	// peek returns the time of the next record, 0 if it is not complete; ok is false if none is
	// queued.
	peek() (ns uint64, ok bool)

	// release gives the room of the records read so far back to the kernel.
	release()

	// pending reports whether something is queued, be it complete or not, and with filling
	// whether a quarter of the room is taken and nobody will say so any more.
	pending(filling bool) bool

	// fullSince returns a time before which there was room for every record, on a CPU where
	// each has its own: 0 if it may always have been full since it was last read, or was before
	// that. told says that gaps have told of all losses until now.
	fullSince(cpu int) uint64
	told()

	// err returns why nothing can be read any more.
	err() error

	// close gives up the memory, and the descriptors that are not a map's.
	close() error
}
