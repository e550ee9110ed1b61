package monitor

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"

	"golang.org/x/sys/unix"
)

// Of linux/audit.h: the message that lists the rules, and struct audit_rule_data, which has the
// texts of its fields at its end.
const (
	auditListRules = 1013
	auditFields    = 64
	auditMask      = 64
	auditHead      = 12 + 4*auditMask + 3*4*auditFields + 4
	auditKey       = 210
)

// auditRules lists the rules of audit(8), which does not enable it. Without the privilege, or
// audit, there are none.
func auditRules() (names []string) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_AUDIT)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	timeout := unix.NsecToTimeval(int64(time.Second))
	if unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout) != nil {
		return nil
	}
	ask := make([]byte, unix.NLMSG_HDRLEN)
	binary.NativeEndian.PutUint32(ask, uint32(len(ask)))
	binary.NativeEndian.PutUint16(ask[4:], auditListRules)
	binary.NativeEndian.PutUint16(ask[6:], unix.NLM_F_REQUEST)
	if unix.Sendto(fd, ask, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) != nil {
		return nil
	}
	for buf := make([]byte, 1<<16); ; {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return names
		}
		some, done := parseAuditRules(buf[:n])
		if names = append(names, some...); done {
			return names
		}
	}
}

// parseAuditRules names the rules in a datagram; done is set after the last one, or an error.
func parseAuditRules(b []byte) (names []string, done bool) {
	for len(b) >= unix.NLMSG_HDRLEN {
		length := int(binary.NativeEndian.Uint32(b))
		kind := binary.NativeEndian.Uint16(b[4:])
		// Audit counts the header in some messages and not in others.
		if length < unix.NLMSG_HDRLEN || length > len(b) {
			length = len(b)
		}
		switch kind {
		case unix.NLMSG_DONE, unix.NLMSG_ERROR:
			return names, true
		case auditListRules:
			names = append(names, auditRule(b[unix.NLMSG_HDRLEN:length]))
		}
		b = b[min(len(b), (length+3)&^3):]
	}
	return names, false
}

// auditRule names a rule by its key and all of its content.
func auditRule(b []byte) string {
	word := func(at int) int {
		if at < 0 || at+4 > len(b) {
			return 0
		}
		return int(binary.NativeEndian.Uint32(b[at:]))
	}
	key := ""
	fields, values, text := 12+4*auditMask, 12+4*auditMask+4*auditFields, auditHead
	for i := range min(word(8), auditFields) {
		switch field := word(fields + 4*i); {
		case field == auditKey:
			if end := text + word(values+4*i); text <= end && end <= len(b) {
				key = string(b[text:end])
			}
			fallthrough
		case hasAuditText(field):
			text += min(max(word(values+4*i), 0), len(b))
		}
	}
	h := fnv.New32a()
	h.Write(b)
	return fmt.Sprintf("%q (%x)", key, h.Sum32())
}

// hasAuditText reports whether the value of a field is the length of a text: labels, paths, keys.
func hasAuditText(field int) bool {
	return field >= 13 && field <= 17 || field >= 19 && field <= 23 || field == 105 || field == 107 || field == 112
}
