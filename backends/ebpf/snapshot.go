package ebpf

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
)

// loadSnapshot loads the program that describes the existing processes, while the caller attaches
// others. If this fails, the snapshot comes from /proc.
func (s *Source) loadSnapshot(l *loader) *sync.WaitGroup {
	var loading sync.WaitGroup
	if l.iterator == 0 {
		return &loading
	}
	values, err := l.newConstants()
	if err != nil {
		return &loading
	}
	spec, all := l.spec.Programs[programsProgQuarkSnapshot].Copy(), maps.Clone(l.maps)
	all[constants] = values
	loading.Go(func() {
		defer values.Close() // the program keeps the map open
		s.snapshot, _ = loadIterator(spec, l.iterator, all, l.types)
	})
	return &loading
}

// Snapshot calls f for every process with the program's description. If the description is
// uncertain, f gets the values that r reads. Some kernels hide processes from the program. Snapshot
// can be called once. After an error, call [procfs.Reader.Scan] instead.
func (s *Source) Snapshot(r *procfs.Reader, f func(*engine.RawEvent) error) error {
	if s.snapshot == nil {
		return errors.ErrUnsupported
	}
	err := s.readTasks(r, f)
	s.snapshot.Close()
	s.snapshot = nil
	return err
}

// argument has the arguments and environment of a process, and the number of their image.
type argument struct {
	start   uint64
	image   uint16 // as in an event
	cmdline []byte
	environ []byte // nil if unknown
}

// arguments reads the arguments of all processes, after the program has reported the number of each
// image.
func (s *Source) arguments(r *procfs.Reader) (map[uint32]argument, error) {
	s.control.set(s.control.imagesOnly, 1)
	defer s.control.set(s.control.imagesOnly, 0)
	tasks, err := openTasks(s.snapshot)
	if err != nil {
		return nil, err
	}
	defer tasks.Close()
	images, err := io.ReadAll(tasks)
	if err != nil {
		return nil, fmt.Errorf("read tasks: %w", err)
	}
	const size = 16 // of struct image
	all := make(map[uint32]argument, len(images)/size)
	var ev engine.RawEvent
	for ; len(images) >= size; images = images[size:] {
		ev.Reset()
		if ev.PID = binary.NativeEndian.Uint32(images[8:]); r.Cmdline(&ev) && ev.Task.Truncated == 0 {
			all[ev.PID] = argument{binary.NativeEndian.Uint64(images), binary.NativeEndian.Uint16(images[12:]) + 1,
				bytes.Clone(ev.Bytes(engine.FieldArgs)), bytes.Clone(ev.Bytes(engine.FieldEnviron))}
		}
	}
	return all, nil
}

// openTasks opens an iterator over all tasks, to read its records.
func openTasks(iterator *ebpf.Program) (io.ReadCloser, error) {
	tasks, err := link.AttachIter(link.IterOptions{Program: iterator})
	if err != nil {
		return nil, fmt.Errorf("iterate over tasks: %w", err)
	}
	defer tasks.Close() // an open iterator keeps running
	return tasks.Open()
}

// readTasks calls f for each process that the program describes.
func (s *Source) readTasks(r *procfs.Reader, f func(*engine.RawEvent) error) error {
	arguments, err := s.arguments(r)
	if err != nil {
		return err
	}
	records, err := openTasks(s.snapshot)
	if err != nil {
		return fmt.Errorf("iterate over tasks: %w", err)
	}
	defer records.Close()
	in := bufio.NewReaderSize(records, 64<<10)
	var ev engine.RawEvent
	for {
		record, err := nextRecord(in)
		if err != nil || record == nil {
			return err
		}
		ev.Reset()
		if err := decode(&ev, record, s.environ); err != nil {
			return err
		}
		in.Discard(len(record))
		certain := ev.Task.Known != 0
		if certain && ev.Task.Known.Has(engine.FieldExe) {
			a := arguments[ev.PID]
			if certain = a.start == ev.Task.Start && a.image == ev.Image; certain {
				ev.Set(engine.FieldArgs, a.cmdline)
				if a.environ != nil {
					ev.Set(engine.FieldEnviron, a.environ)
				}
			}
		}
		ev.Kind, ev.TID, ev.CPU, ev.Image = 0, ev.PID, 0, 0 // a snapshot is no event
		if !certain && !r.Describe(ev.PID, &ev) {
			continue
		}
		if err := f(&ev); err != nil {
			return err
		}
	}
}

// nextRecord returns the next record, which has texts, without consuming it. At the end it returns
// nil.
func nextRecord(in *bufio.Reader) ([]byte, error) {
	head, err := in.Peek(textsSize)
	if err != nil {
		if errors.Is(err, io.EOF) && len(head) == 0 {
			return nil, nil
		}
		return nil, fmt.Errorf("read tasks: %w", err)
	}
	size := textsSize
	for _, t := range textHeaders(head) {
		size += int(min(t.length, uint32(maxRecord)))
	}
	record, err := in.Peek(size)
	if err != nil {
		return nil, fmt.Errorf("read tasks: %w", err)
	}
	return record, nil
}

// newConstants makes a map of the constants.
func (l *loader) newConstants() (*ebpf.Map, error) {
	of := l.spec.Maps[constants]
	for _, v := range l.spec.Variables {
		if v.SectionName == constants {
			copy(of.Contents[0].Value.([]byte)[v.Offset:], v.Value)
		}
	}
	return ebpf.NewMap(of)
}

// loadIterator loads an iterator. The kernel identifies its kind by the id of a function in its
// types. To find the id, package ebpf would decode all of the kernel's types, which takes longer
// than all other steps.
func loadIterator(spec *ebpf.ProgramSpec, function btf.TypeID, maps map[string]*ebpf.Map, kernel *btf.Spec) (*ebpf.Program, error) {
	setReads(spec, 0, 0) // reads by calls return an error if the memory was freed
	var relocations []*btf.CORERelocation
	var relocated []*asm.Instruction
	for i := range spec.Instructions {
		in := &spec.Instructions[i]
		if r := btf.CORERelocationMetadata(in); r != nil {
			relocations, relocated = append(relocations, r), append(relocated, in)
		}
		if !in.IsLoadFromMap() {
			continue
		}
		if err := in.AssociateMap(maps[in.Reference()]); err != nil {
			return nil, err
		}
	}
	var types btf.Builder
	fixups, err := btf.CORERelocate(relocations, []*btf.Spec{kernel}, spec.ByteOrder, types.Add)
	if err != nil {
		return nil, fmt.Errorf("relocate %s: %w", spec.Name, err)
	}
	for i, f := range fixups {
		if err := f.Apply(relocated[i]); err != nil {
			return nil, fmt.Errorf("relocate %s: %w", spec.Name, err)
		}
	}
	functions, _, err := btf.MarshalExtInfos(spec.Instructions, &types)
	if err != nil {
		return nil, fmt.Errorf("relocate %s: %w", spec.Name, err)
	}
	handle, err := btf.NewHandle(&types)
	if err != nil {
		return nil, fmt.Errorf("load types of %s: %w", spec.Name, err)
	}
	defer handle.Close()
	var code bytes.Buffer
	if err := spec.Instructions.Marshal(&code, spec.ByteOrder); err != nil {
		return nil, err
	}
	license := append([]byte(spec.License), 0)
	attr := loadAttr{
		kind: unix.BPF_PROG_TYPE_TRACING, flags: spec.Flags, attachType: unix.BPF_TRACE_ITER, attachID: uint32(function),
		instructions: unsafe.Pointer(&code.Bytes()[0]), count: uint32(code.Len() / asm.InstructionSize),
		license: unsafe.Pointer(&license[0]), types: uint32(handle.FD()),
		functions: unsafe.Pointer(&functions[0]), functionSize: btf.FuncInfoSize,
		functionCount: uint32(len(functions)) / btf.FuncInfoSize,
	}
	copy(attr.name[:len(attr.name)-1], spec.Name)
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return nil, fmt.Errorf("load %s: %w", spec.Name, errno)
	}
	return ebpf.NewProgramFromFD(int(fd))
}

// loadAttr is the member of union bpf_attr (linux/bpf.h) for BPF_PROG_LOAD.
type loadAttr struct {
	kind, count           uint32
	instructions, license unsafe.Pointer
	logLevel, logSize     uint32
	log                   unsafe.Pointer
	version, flags        uint32
	name                  [unix.BPF_OBJ_NAME_LEN]byte
	device, attachType    uint32
	types, functionSize   uint32
	functions             unsafe.Pointer
	functionCount         uint32
	lineSize              uint32
	lines                 unsafe.Pointer
	lineCount, attachID   uint32
}
