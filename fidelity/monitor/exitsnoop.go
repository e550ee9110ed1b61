package monitor

import (
	"fmt"
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

// snoopTime is the width of the time column.
const snoopTime = 9

func (exitsnoopDecoder) Decode(line []byte, at uint64, to *Output) error {
	text := strings.TrimSuffix(string(line), "\r")
	if strings.HasPrefix(text, "TIME") || text == "" {
		return nil
	}
	if lost, ok := lostLine(text, to); ok {
		return lost
	}
	if len(text) < snoopTime+snoopComm+1 || strings.Count(text[:8], ":") != 2 {
		return fmt.Errorf("no time at the start")
	}
	name, rest := strings.TrimRight(text[snoopTime:snoopTime+snoopComm], " "), text[snoopTime+snoopComm+1:]
	pid, rest, err := columnNumber(rest, 7)
	if err != nil {
		return fmt.Errorf("no pid: %w", err)
	}
	ppid, rest, err := columnNumber(rest, 7)
	if err != nil {
		return fmt.Errorf("no ppid: %w", err)
	}
	words := strings.Fields(rest) // TID, AGE, and the kind of end
	if len(words) < 3 {
		return fmt.Errorf("no exit status")
	}
	how := strings.Join(words[2:], " ")
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
	setComm(p, name)
	setExit(ev, status)
	return nil
}

// scans reports whether text matches a format with a number, and sets the number.
func scans(text, format string, n *int32) bool {
	got, err := fmt.Sscanf(text, format, n)
	return got == 1 && err == nil && *n >= 0 && *n < 1<<16
}
