package monitor

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
)

// exitsnoop returns exitsnoop of libbpf-tools. It reports the end of the leader of a process.
func exitsnoop() *Monitor {
	return &Monitor{
		Name: "exitsnoop", Version: []string{"--version"}, Package: "libbpf-tools", Programs: []string{"exitsnoop-libbpf", "exitsnoop"},
		Arguments: []string{"-t"}, Terminal: true, Tracefs: true,
		Table: table(map[engine.Kind]string{engine.KindExit: "a line, of the leader's end"}, []claim{
			{engine.FieldPPID, atExit, "PPID"},
			{engine.FieldComm, atExit, "PCOMM"},
			{engine.FieldExit, atExit, "EXIT_CODE, the leader's"},
		}, "a line has a second, so that its arrival is its time"),
		Foreign: score.Tolerance{NoStamps: true, Late: uint64(10 * time.Second)},
		Decoder: func() Decoder { return exitsnoopDecoder{} },
	}
}

// exitsnoopDecoder decodes lines of exitsnoop.
type exitsnoopDecoder struct{}

// exitsnoopLine matches a line: name, pid, parent, thread, age and kind of end. The name is in a
// column of 16 bytes, and may contain spaces.
var exitsnoopLine = regexp.MustCompile(`^\d\d:\d\d:\d\d (.{1,16}?) +(\d+) +(\d+) +\d+ +[\d.]+ +(\S.*)$`)

func (exitsnoopDecoder) Decode(line []byte, at uint64, to *Output) error {
	text := strings.TrimRight(string(line), "\r ")
	if strings.HasPrefix(text, "TIME") || text == "" {
		return nil
	}
	if lost, ok := lostLine(text, to); ok {
		return lost
	}
	m := exitsnoopLine.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("no columns of exitsnoop")
	}
	pid, err := strconv.ParseUint(m[2], 10, 32)
	ppid, err2 := strconv.ParseUint(m[3], 10, 32)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	how := m[4]
	var n int32
	status := int32(-1)
	switch {
	case how == "0":
		status = 0
	case scans(how, "code %d", &n):
		status = n << 8
	case scans(how, "signal %d", &n):
		status = n
		if strings.HasSuffix(how, "core dumped") {
			status |= 0x80
		}
	}
	if status < 0 {
		return fmt.Errorf("unknown exit status %.40q", how)
	}
	ev, p := to.add(engine.KindExit, uint32(pid), at)
	setParent(p, uint32(ppid))
	setComm(p, strings.TrimRight(m[1], " "))
	setExit(ev, status)
	return nil
}

// scans reports whether text matches a format with a number, and sets the number.
func scans(text, format string, n *int32) bool {
	got, err := fmt.Sscanf(text, format, n)
	return got == 1 && err == nil && *n >= 0 && *n < 1<<16
}
