package ebpf

// buffer is the reader's end of the programs' records: the ring, or perf buffers.
type buffer interface {
	// FD polls readable after the programs have woken the reader.
	FD() int

	// next returns the next record, or nil if no complete one is queued. The record is valid
	// until the next call of another method. An empty record stands for invalid data.
	next() []byte

	// peek returns the time of the next record, or 0 if the record is not complete. ok is false
	// if no record is queued.
	peek() (ns uint64, ok bool)

	// release returns the space of the records read so far to the kernel.
	release()

	// pending reports whether a record is queued, complete or not. If filling is set, it
	// reports whether a quarter of the buffer is used and no later wake-up will report this.
	pending(filling bool) bool

	// fullSince returns a time up to which the buffer had room for every record, or 0 if the
	// buffer may have been full since the last read or longer. cpu selects one of several
	// buffers.
	fullSince(cpu int) uint64

	// markReported records that gaps have reported all losses until now.
	markReported()

	// err returns why reading ended, or nil.
	err() error

	// close frees the memory, and closes the descriptors that are not a map's.
	close() error
}
