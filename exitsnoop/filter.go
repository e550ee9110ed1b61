package exitsnoop

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// filter is the map pid_filter in our memory, in which the program, this and
// other processes count at the same time; programs/abi.h says what.
type filter struct {
	mu   sync.RWMutex // held for writing while it is unmapped
	mem  []byte       // nil after close
	view *programsFilter
}

func mapFilter(m *ebpf.Map) (*filter, error) {
	size := int(unsafe.Sizeof(programsFilter{}))
	mem, err := unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s into memory: %w", programsMapPidFilter, err)
	}
	return &filter{mem: mem, view: (*programsFilter)(unsafe.Pointer(&mem[0]))}, nil
}

func (f *filter) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mem != nil {
		unix.Munmap(f.mem)
		f.mem, f.view = nil, nil
	}
}

// up and down count a pid. After close they do nothing: then a count may stay too high.
func (f *filter) up(pid uint32)   { f.add(pid, 1) }
func (f *filter) down(pid uint32) { f.add(pid, ^uint32(0)) }

func (f *filter) add(pid, n uint32) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.view != nil {
		atomic.AddUint32(&f.view.Traced[pid%uint32(len(f.view.Traced))], n)
	}
}

// putTask makes a tracing entry that is not there yet.
func (s *Store) putTask(pid uint32, t *programsTask) error {
	s.filter.up(pid)
	err := s.tasks.Update(pid, t, ebpf.UpdateNoExist)
	if err != nil {
		s.filter.down(pid)
	}
	return err
}

func (s *Store) deleteTask(pid uint32) error {
	err := s.tasks.Delete(pid)
	if err == nil {
		s.filter.down(pid)
	}
	return err
}

// refill counts the traced processes in a filter that was made anew for maps that
// were there. The program must not run yet.
func refill(all, old maps) error {
	if old[programsMapTracingTasks] == nil || old[programsMapPidFilter] != nil {
		return nil
	}
	f, err := mapFilter(all[programsMapPidFilter])
	if err != nil {
		return err
	}
	defer f.close()
	tasks, err := collect[uint32, programsTask](all[programsMapTracingTasks], "traced processes")
	for pid := range tasks {
		f.up(pid)
	}
	return err
}
