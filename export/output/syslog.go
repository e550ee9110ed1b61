package output

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"

	"github.com/quark-linux/quark/export/internal/spool"
)

// syslog sends messages of RFC 5424: over datagrams of Unix or UDP (RFC 5426), or over TCP with
// their length before each (RFC 6587, 3.4.1).
type syslog struct {
	network, address string
	framed           bool
	header           string // of APP-NAME and PROCID
	host             string
	conn             net.Conn
	gone             chan struct{} // closed when the other end of a TCP connection is
	closed           error         // that it was, until it is reported
	buffer           []byte
}

var errClosed = errors.New("syslog: the target has closed the connection: what it had not read of it is lost, and counts as delivered")

// The priorities of RFC 5424: facility daemon (3), severities informational (6) and warning (4).
const (
	priorityInfo    = 3<<3 | 6
	priorityWarning = 3<<3 | 4
)

func openSyslog(network, address, program string) (*syslog, error) {
	s := &syslog{network: network, address: address, host: "-"}
	switch network {
	case "unix":
		s.network = "unixgram"
	case "tcp":
		s.framed = true
	case "udp":
	default:
		return nil, fmt.Errorf("syslog+%s: choose syslog+unix:PATH, syslog+udp://HOST:PORT or syslog+tcp://HOST:PORT", network)
	}
	if name, err := os.Hostname(); err == nil && name != "" {
		s.host = token(name, 255)
	}
	s.header = token(program, 48) + " " + strconv.Itoa(os.Getpid())
	if network == "unix" {
		return s, s.dial(context.Background())
	}
	// Who is away now may come back: the first line tries.
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		err = checkPort(network, port)
	}
	if err != nil {
		return nil, fmt.Errorf("syslog+%s: %w", network, err)
	}
	return s, nil
}

// checkPort returns why a port, by number or name, can't be one of a target.
func checkPort(network, port string) error {
	n, err := net.LookupPort(network, port)
	if err == nil && n == 0 {
		err = errors.New("port 0 is no target's: give its port")
	}
	return err
}

// token returns a text as a header can have it: so many characters of ASCII that print.
func token(text string, most int) string {
	b := bytes.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f {
			return r
		}
		return '_'
	}, []byte(text))
	if len(b) == 0 {
		return "-"
	}
	return string(b[:min(len(b), most)])
}

func (s *syslog) dial(ctx context.Context) (err error) {
	d := net.Dialer{Timeout: sendTimeout}
	s.conn, err = d.DialContext(ctx, s.network, s.address)
	if err != nil {
		s.conn = nil
		return fmt.Errorf("syslog: %w", err)
	}
	if s.framed {
		s.gone = make(chan struct{})
		go listen(s.conn, s.gone)
	}
	return nil
}

// listen reads what a peer says, and drops it: what is not read when a connection is closed makes
// the kernel drop what it has not sent. A peer that has closed it would be known only by the second
// message after that.
func listen(conn net.Conn, gone chan<- struct{}) {
	_, _ = io.Copy(io.Discard, conn)
	close(gone)
	conn.Close()
}

func (s *syslog) close() error {
	if s.conn == nil {
		return nil
	}
	if err := s.conn.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil // the peer has closed it
}

// append appends the message of an entry. MSGID is what happened.
func (s *syslog) append(b []byte, e *entry) []byte {
	priority := priorityInfo
	if e.warning {
		priority = priorityWarning
	}
	b = append(strconv.AppendInt(append(b, '<'), int64(priority), 10), ">1 "...)
	b = e.time.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	b = append(append(append(append(b, ' '), s.host...), ' '), s.header...)
	b = append(append(append(b, ' '), token(e.events, 32)...), " - "...)
	return append(b, bytes.TrimRight(e.line, "\n")...)
}

func (s *syslog) send(ctx context.Context, batch []entry) spool.Outcome {
	out := oneByOne(ctx, batch, func(e *entry) error {
		select {
		case <-s.gone:
			s.conn, s.gone, s.closed = nil, nil, errClosed
		default:
		}
		if s.conn == nil {
			if err := s.dial(ctx); err != nil {
				return err
			}
		}
		s.buffer = s.append(s.buffer[:0], e)
		message := s.buffer
		if s.framed {
			message = append(append(strconv.AppendInt(nil, int64(len(message)), 10), ' '), message...)
		}
		err := within(ctx, s.conn, func() error {
			_, err := s.conn.Write(message)
			return err
		})
		if errors.Is(err, syscall.EMSGSIZE) {
			return fmt.Errorf("syslog: %w: %d bytes by %s", errTooLarge, len(message), s.network)
		}
		if err != nil {
			s.conn.Close() // a part may have been sent
			s.conn, s.gone = nil, nil
			return fmt.Errorf("syslog: %w", err)
		}
		return nil
	})
	if out.Err == nil {
		out.Err, s.closed = s.closed, nil
	}
	return out
}
