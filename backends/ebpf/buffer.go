package ebpf

// buffer is the reader's end of the programs' records: the ring, or perf buffers.
type buffer interface {
	// FD polls readable after the programs have woken the reader.
	FD() int

	// next returns the next record, valid until the next call of another method, or nil if
	// there is no complete one. An empty record stands for invalid data.
	next() []byte

	// peek returns the time of the next record, 0 if it is not complete; ok is false if none is
	// queued.
	peek() (ns uint64, ok bool)

	// release returns the space of the records read so far to the kernel.
	release()

	// pending reports whether a record is queued, complete or not. With filling it reports
	// whether a quarter of the buffer is used and no wake-up for that will come any more.
	pending(filling bool) bool

	// fullSince returns a time until which there was room for every record, on cpu if each CPU
	// has a buffer. It returns 0 if the buffer may have been full ever since, or even before,
	// the last read. told is set if gaps have reported all losses until now.
	fullSince(cpu int) uint64
	told()

	// err returns why reading ended, or nil.
	err() error

	// close frees the memory, and closes the descriptors that are not a map's.
	close() error
}
