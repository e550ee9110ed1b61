package exitsnoop

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// filter is the map pid_filter, mapped into memory: the number of traced processes for each
// remainder of pids (programs/abi.h). The program reads it while this and other processes change
// the counts.
type filter struct {
	mu   sync.RWMutex // held for writing by close
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

// increment and decrement count a pid. After close they have no effect; too high a count only costs
// time.
func (f *filter) increment(pid uint32) { f.add(pid, 1) }
func (f *filter) decrement(pid uint32) { f.add(pid, ^uint32(0)) }

func (f *filter) add(pid, n uint32) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.view != nil {
		atomic.AddUint32(&f.view.Traced[pid%uint32(len(f.view.Traced))], n)
	}
}

// putTask adds a tracing entry. It is an error if the pid has one.
func (s *Store) putTask(pid uint32, t *programsTask) error {
	s.filter.increment(pid)
	err := s.tasks.Update(pid, t, ebpf.UpdateNoExist)
	if err != nil {
		s.filter.decrement(pid)
	}
	return err
}

func (s *Store) deleteTask(pid uint32) error {
	err := s.tasks.Delete(pid)
	if err == nil {
		s.filter.decrement(pid)
	}
	return err
}

// refill fills a new filter for an existing map of traced processes. The program must not run yet.
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
		f.increment(pid)
	}
	return err
}
