package source

// EBPFOptions are the options of the eBPF source. The zero value is right for most.
type EBPFOptions struct {
	// RingSize is the size in bytes of the ring that all CPUs write to, rounded up to a power
	// of two and at least one page. 0 means 512 KiB for each possible CPU, between 4 MiB and 64
	// MiB. Set it larger if the reader may pause for long, smaller only to provoke loss. Perf
	// buffers share it among the CPUs that are online at Open, each a power of two.
	RingSize int

	// Buffer selects how records reach user space. The default is the best way that the kernel
	// has. Other values are for tests and comparisons.
	Buffer Buffer
}

// KProbeOptions are the options of the kprobe source. The zero value is right for most.
type KProbeOptions struct {
	// RingSize is the size in bytes of the ring of each CPU, rounded up to a power of two and
	// at least one page. 0 means 512 KiB. An exec takes about 7 KiB of it, a fork 1.5 KiB,
	// other events less than 0.5 KiB. Set it larger if the reader may pause for long, smaller
	// only to provoke loss.
	RingSize int
}

// CNProcOptions are the options of the proc connector. The zero value is right for most.
type CNProcOptions struct {
	// ReceiveBuffer is the size of the receive buffer of each socket in bytes, as the kernel
	// counts them: several hundred for each message. 0 means 16 MiB, room for some ten thousand
	// messages. The limit is 1 GiB. Without CAP_NET_ADMIN the kernel limits it to
	// /proc/sys/net/core/rmem_max. Set it only to provoke loss.
	ReceiveBuffer int

	// Enrich selects the fields that are read from /proc: all by default.
	Enrich Enrich
}

// AuditOptions are the options of the audit source. The zero value is right if audit is enabled.
type AuditOptions struct {
	// Enable enables audit if it is disabled. Without it, Open fails if audit is disabled. Set
	// it with care: until the next boot, the kernel takes a slow path through each system call
	// of every process that starts afterwards. That holds even after audit is disabled again,
	// as Close does if nobody else uses it. Processes from before audit was first enabled are
	// never audited. It is better to boot with audit=1.
	Enable bool

	// ReceiveBuffer is the size of the socket's receive buffer in bytes, as the kernel counts
	// them: some 900 for each record. A fork, an exec and an exit have 14 records. 0 means 64
	// MiB, room for some five thousand such processes. The limit is 1 GiB. Set it only to
	// provoke loss.
	ReceiveBuffer int
}

// Enrich selects the fields that are read from /proc.
type Enrich uint8

const (
	// EnrichFull reads all fields that /proc has of a process after its fork and after each
	// exec.
	EnrichFull Enrich = iota
	// EnrichNone reads no fields: events carry only what the kernel sends. It is for counting.
	// At the start and after a loss the source still reads the list of threads from /proc: the
	// kernel reports the exit of each thread, and the source must find the last one.
	EnrichNone
)
