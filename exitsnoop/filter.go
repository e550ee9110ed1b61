package exitsnoop

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// filter is the map pid_filter, mapped into memory: the number of traced processes for each
// remainder of pids (programs/abi.h). The program reads it while this and other processes change
// the counts.
type filter []byte

func mapFilter(m *ebpf.Map) (filter, error) {
	size := int(unsafe.Sizeof(programsFilter{}))
	mem, err := unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s into memory: %w", programsMapPidFilter, err)
	}
	return mem, nil
}

func (f filter) close() { unix.Munmap(f) }

func (f filter) counts() *programsFilter { return (*programsFilter)(unsafe.Pointer(&f[0])) }

func (f filter) add(pid uint32, n int32) {
	c := f.counts()
	atomic.AddUint32(&c.Traced[pid%uint32(len(c.Traced))], uint32(n))
}

// putTask adds a tracing entry. It is an error if the pid has one.
func (s *Store) putTask(pid uint32, t *programsTask) error {
	return s.closing.use(func() error {
		s.filter.add(pid, 1)
		err := s.tasks.m.Update(pid, t, ebpf.UpdateNoExist)
		if err != nil {
			s.filter.add(pid, -1)
		}
		return err
	})
}

func (s *Store) deleteTask(pid uint32) error {
	return s.closing.use(func() error {
		err := s.tasks.m.Delete(pid)
		if err == nil {
			s.filter.add(pid, -1)
		}
		return err
	})
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
		f.add(pid, 1)
	}
	return err
}
