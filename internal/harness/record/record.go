package record

import (
	"bytes"
	"fmt"
)

// Hello is the first record of a guest: its kernel and machine.
type Hello struct {
	Kernel   string          `json:"kernel"` // release, as uname -r
	Version  string          `json:"version"`
	Arch     string          `json:"arch"` // GOARCH
	CPUs     int             `json:"cpus"`
	MemoryKB uint64          `json:"memory_kb"`
	Features map[string]bool `json:"features"`
	// optional parts of the guest that could not be set up
	Missing []string `json:"missing,omitempty"`
}

// Plan lists the jobs that a test program will run, in their order.
type Plan struct {
	Jobs []Job `json:"jobs"`
}

// Job is a test on a backend. In JSON it is the string "TEST @ BACKEND".
type Job struct{ Test, Backend string }

func (j Job) String() string { return j.Test + " @ " + j.Backend }

// Start reports that a job begins.
type Start struct {
	Test    string `json:"test"`
	Backend string `json:"backend"`
}

// Result reports how a job ended.
type Result struct {
	Test       string `json:"test"`
	Backend    string `json:"backend"`
	State      State  `json:"state"`
	Reason     string `json:"reason,omitempty"` // empty if the state is Pass
	DurationMS int64  `json:"duration_ms"`
	Log        string `json:"log,omitempty"`
}

// Job returns the job that ended.
func (r Result) Job() Job { return Job{r.Test, r.Backend} }

// Blob is a part of a file from a guest: one line has at most MaxLine bytes.
type Blob struct {
	Name   string `json:"name"`   // relative path with slashes
	Offset int    `json:"offset"` // offset of the part
	Size   int    `json:"size"`   // size of the file
	Data   []byte `json:"data"`   // base64 in JSON
}

// Output is a part of a command's output, byte by byte: the console would change newlines and add
// the kernel's messages.
type Output struct {
	FD   int    `json:"fd"`   // 1 or 2
	Data []byte `json:"data"` // base64 in JSON
}

// End is the last record of a guest.
type End struct {
	// exit status as a shell returns it: 128 plus the signal, 126 and 127 for a command that
	// does not start
	Status     int    `json:"status"`
	Signal     int    `json:"signal,omitempty"` // signal that killed the command
	CoreDumped bool   `json:"core_dumped,omitempty"`
	DurationMS int64  `json:"duration_ms"`     // duration of the command
	Error      string `json:"error,omitempty"` // reason why init could not run the command
}

// State of a job or a guest. A test program reports the first three only.
type State string

const (
	Pass     State = "pass"
	Fail     State = "fail"
	Skip     State = "skip"      // with a reason
	Crash    State = "crash"     // the kernel complained: an oops, a panic, a warning
	Hang     State = "hang"      // a deadline passed
	BootFail State = "boot-fail" // no Hello came
	Lost     State = "lost"      // no End came, or records are missing or damaged
)

// Good reports whether s is Pass or Skip.
func (s State) Good() bool { return s == Pass || s == Skip }

// MarshalText returns a job in the form TEST @ BACKEND.
func (j Job) MarshalText() ([]byte, error) { return []byte(j.String()), nil }

// UnmarshalText parses the form of MarshalText.
func (j *Job) UnmarshalText(b []byte) error {
	const sep = " @ "
	i := bytes.LastIndex(b, []byte(sep))
	if i <= 0 || i+len(sep) == len(b) {
		return fmt.Errorf("job %q: want TEST @ BACKEND", b)
	}
	*j = Job{string(b[:i]), string(b[i+len(sep):])}
	return nil
}
