package output

import (
	"bytes"
	"encoding/binary"
	"strconv"
)

// appendField appends a field as journald's native protocol has it: NAME=VALUE, or where the value
// has more than one line NAME, a line end and the length in 8 bytes, the lowest first.
func appendField(b []byte, name string, value []byte) []byte {
	b = append(b, name...)
	if bytes.IndexByte(value, '\n') < 0 {
		b = append(append(b, '='), value...)
	} else {
		b = append(binary.LittleEndian.AppendUint64(append(b, '\n'), uint64(len(value))), value...)
	}
	return append(b, '\n')
}

// appendJournal appends the fields of an entry. The pid is not in OBJECT_PID, by which the journal
// would add what is known of a process that may be another one by then.
func appendJournal(b []byte, program string, e *entry) []byte {
	priority := priorityInfo & 7
	if e.warning {
		priority = priorityWarning & 7
	}
	b = appendField(b, "MESSAGE", []byte(e.summary))
	b = appendField(b, "PRIORITY", strconv.AppendInt(nil, int64(priority), 10))
	b = appendField(b, "SYSLOG_IDENTIFIER", []byte(program))
	b = appendField(b, "SYSLOG_FACILITY", []byte("3"))
	b = appendField(b, "QUARK_TIME", e.time.UTC().AppendFormat(nil, "2006-01-02T15:04:05.000000000Z"))
	if e.events != "" {
		b = appendField(b, "QUARK_EVENTS", []byte(e.events))
	}
	if e.pid != 0 {
		b = appendField(b, "QUARK_PID", strconv.AppendUint(nil, uint64(e.pid), 10))
	}
	return appendField(b, "QUARK_DOCUMENT", bytes.TrimRight(e.line, "\n"))
}
