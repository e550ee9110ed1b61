//go:build linux

package main

import "encoding/json"

// hello is the first record of a guest: what was booted.
type hello struct {
	Type     string          `json:"type"`
	Kernel   string          `json:"kernel"` // release, as uname -r
	Version  string          `json:"version"`
	Arch     string          `json:"arch"` // GOARCH
	CPUs     int             `json:"cpus"`
	MemoryKB uint64          `json:"memory_kb"`
	Image    string          `json:"image,omitempty"` // IMAGE_VERSION of the initramfs
	Features map[string]bool `json:"features"`
	Missing  []string        `json:"missing,omitempty"` // optional parts of the guest that could not be set up
}

// end is the last record of a guest. Status comes right after the type: krun.sh reads it without a JSON parser.
type end struct {
	Type       string `json:"type"`
	Status     int    `json:"status"`           // as a shell gives it: 128 plus the signal, 126 and 127 for a command that does not start
	Signal     int    `json:"signal,omitempty"` // what killed the command
	CoreDumped bool   `json:"core_dumped,omitempty"`
	DurationMS int64  `json:"duration_ms"`     // the command's
	Error      string `json:"error,omitempty"` // why init could not run the command
}

// statusInit is the status in an end record when init itself could not do its work. krun.sh uses the same number for a
// guest that does not report.
const statusInit = 125

// encode returns a record's line.
func encode(record any) []byte {
	b, err := json.Marshal(record)
	if err != nil {
		// The records above hold nothing that JSON does not know.
		panic(err)
	}
	return append(b, '\n')
}
