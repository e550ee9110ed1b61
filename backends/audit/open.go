package audit

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/backends/internal/pace"
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/internal/auditrule"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/proctext"
)

// Open adds the rules and listens to records. Audit must be enabled, or Options.Enable must be set.
func Open(shared source.Options, o Options) (*Source, error) {
	if err := errors.Join(setDefaults(&o), shared.CheckTypes()); err != nil {
		return nil, err
	}
	if shared.Threads {
		return nil, fmt.Errorf("report threads: audit does not record them: %w", errors.ErrUnsupported)
	}
	s := newSource(shared, o)
	if err := s.openAll(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// newSource returns a source without a socket.
func newSource(shared source.Options, o Options) *Source {
	s := &Source{
		shared: shared, opts: o, now: clock.Monotonic, hold: defaultHold, wall: newWallClock(), boot: procfs.NewBootClock(),
		socket: socket{fd: -1, batch: nlsocket.NewBatch(batchSize, maxMessage)}, latest: make(map[uint32]latest),
	}
	if shared.HoldTime > 0 { // events must arrive in time to be put in order
		s.hold = max(leastHold, min(s.hold, uint64(shared.HoldTime)/4))
	}
	s.last = s.now()
	return s
}

func (s *Source) openAll() (err error) {
	for _, kind := range []string{"user", "pid"} {
		if !proctext.InInitialNamespace(kind) {
			return fmt.Errorf("audit serves only the initial %s namespace (%w): run this program in the host's namespace", kind, errors.ErrUnsupported)
		}
	}
	if err := nlsocket.CheckNetwork(); err != nil {
		return err
	}
	if s.rules.control, err = auditrule.Open(); errors.Is(err, unix.EPROTONOSUPPORT) {
		return fmt.Errorf("%w: this kernel has no CONFIG_AUDIT, or was booted with audit=0", err)
	} else if err != nil {
		return err
	}
	if _, err := s.status(); err != nil {
		return err
	}
	if s.proc, err = procfs.OpenFor(&s.shared.Environ); err != nil {
		return err
	}
	s.proc.Sparing = true
	hidden, err := s.rules.open(&s.shared)
	if err != nil {
		return err
	}
	if err := s.listen(); err != nil {
		return err
	}
	// From now on the records show if audit is disabled. Another source that has just ended may
	// have disabled it.
	st, err := s.status()
	if err == nil && st.Enabled == auditrule.Off {
		err = s.rules.enable()
	}
	if err != nil {
		return err
	}
	cmdline, _ := os.ReadFile("/proc/cmdline")
	always := strings.Contains(string(cmdline), "audit=1")
	if b := &s.loss.backlog; !always && st.PID == 0 {
		if b.control, err = auditrule.Open(); err != nil {
			return err
		}
		b.count, b.since = st.Lost, s.now()
	}
	s.loss.bound = hidden != "" || s.loss.backlog.control == nil
	s.describe(always, hidden)
	return s.shared.LeaveOut(&s.caps)
}

// status returns the status of audit. It fails if audit is neither usable nor may be enabled.
func (s *Source) status() (auditrule.Status, error) {
	st, err := s.rules.control.Status()
	switch {
	case errors.Is(err, unix.EPERM):
		err = fmt.Errorf("%w: needs CAP_AUDIT_CONTROL in the initial pid namespace", err)
	case err == nil && st.Enabled == auditrule.Off && !s.opts.Enable:
		err = fmt.Errorf("audit is not enabled: boot with audit=1, or run auditctl -e 1, or let quark enable it "+
			"(Options.Audit.Enable, quark-mon --audit-enable), which slows down system calls until the next boot: %w", errors.ErrUnsupported)
	case err == nil && st.Enabled >= auditrule.Locked:
		err = fmt.Errorf("the audit rules are locked until the next boot (auditctl -e 2): "+
			"reboot, and remove -e 2 from the rules in /etc/audit: %w", errors.ErrUnsupported)
	}
	return st, err
}

// listen joins the multicast group of records.
func (s *Source) listen() (err error) {
	const readLog = 1 // AUDIT_NLGRP_READLOG, as a bit of the groups
	k := &s.socket
	k.fd, err = nlsocket.Open(unix.NETLINK_AUDIT, readLog, s.opts.ReceiveBuffer)
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("listen to audit records: %w: needs CAP_AUDIT_READ", err)
	case err != nil:
		return fmt.Errorf("listen to audit records: %w", err)
	}
	k.pace, err = pace.New(pace.Reading, k.fd)
	return err
}
