package scenario

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// compatCall is a system call of a 32-bit program, with its 32-bit number.
type compatCall [5]uint32

const (
	compatPtrace    = 26
	compatPause     = 29
	compatSetsid    = 66
	compatWait4     = 114
	compatSetresuid = 208
	compatSetresgid = 210
	compatExitGroup = 252
	compatUnshare   = 310
)

// compat lets p execute a program that makes 32-bit system calls and exits with the code. It skips
// the scenario if the kernel lacks 32-bit calls.
func (d *director) compat(p *process, code uint32, calls ...compatCall) {
	path := d.compatProgram(append(calls, compatCall{compatExitGroup, code})...)
	status := d.do(p.program(path, []string{"compat"}, truth.State{}))
	if status.Signal() == unix.SIGSEGV {
		d.skip("the kernel has no 32-bit system calls")
	}
	d.wantCode(status, int(code))
}

// compatProgram returns the path of a program that makes 32-bit system calls.
func (d *director) compatProgram(calls ...compatCall) (path string) {
	if runtime.GOARCH != "amd64" {
		d.skip("it makes 32-bit system calls of x86")
	}
	var text []byte
	for _, c := range calls {
		// mov eax, ebx, ecx, edx, esi
		for i, set := range []byte{0xb8, 0xbb, 0xb9, 0xba, 0xbe} {
			text = binary.LittleEndian.AppendUint32(append(text, set), c[i])
		}
		text = append(text, 0xcd, 0x80) // int 0x80
		// On an error the program ends by a signal: test eax, eax; jns +2; ud2.
		text = append(text, 0x85, 0xc0, 0x79, 0x02, 0x0f, 0x0b)
	}
	program, err := tinyelf.Program(text)
	d.must(err)
	path = filepath.Join(d.dir, "compat")
	os.Remove(path)
	d.must(os.WriteFile(path, program, 0o755))
	return path
}

// compatTracer traces a process by 32-bit system calls.
func compatTracer(d *director) {
	done := d.gate()
	p := d.traced(done)
	tracer, pid := d.script(), uint32(p.pid)
	before := truth.Clock()
	d.compat(tracer, 3,
		compatCall{compatPtrace, unix.PTRACE_ATTACH, pid},
		compatCall{compatWait4, pid, 0, unix.WALL},
		compatCall{compatPtrace, unix.PTRACE_DETACH, pid})
	for _, by := range []int{tracer.pid, 0} {
		d.record(truth.Record{Op: truth.Ptrace, PID: p.pid, Earliest: before, Latest: truth.Clock(), Tracer: by, Compat: true})
	}
	done.open()
	d.finish(p)
}

// compatIDs changes ids by 32-bit system calls. The next event is a PTRACE, which has no ids.
func compatIDs(d *director) {
	d.compat(d.script(), 4) // to skip the scenario first
	path := d.compatProgram(
		compatCall{compatSetresgid, 2001, 2002, 2003},
		compatCall{compatSetresuid, 2004, 2005, 2006},
		compatCall{compatSetsid},
		compatCall{compatPause})
	p, before := d.script(), truth.Clock()
	d.start(p.image(path, []string{"compat"}, nil))
	await(func() bool {
		sid, err := unix.Getsid(p.pid)
		d.must(err)
		return sid == p.pid && d.state(p) == 'S' // in pause(2), no longer in setsid(2)
	})
	d.record(truth.Record{Op: truth.Exec, PID: p.pid, Earliest: before, Latest: truth.Clock()})
	session := truth.Record{Op: truth.IDs, ID: engine.ChangedSID}
	session.State.Set(engine.FieldSID, itoa(p.pid))
	session.State.Set(engine.FieldPGID, itoa(p.pid))
	for _, r := range []truth.Record{idRecord(engine.ChangedGID, 2001, 2002, 2003), idRecord(engine.ChangedUID, 2004, 2005, 2006), session} {
		r.PID, r.Earliest, r.Latest, r.Compat = p.pid, before, truth.Clock(), true
		d.record(r)
	}
	d.must(d.trace(p.pid, unix.PTRACE_SEIZE))
	d.must(unix.Kill(p.pid, unix.SIGKILL))
	d.finish(p)
}
