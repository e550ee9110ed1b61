package soak

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/textproto"
	"strconv"
	"sync"
	"time"
)

// What a target does.
const (
	works = iota
	refuses
	hangs
	lies
	breaks
	phases
)

// target is a server of HTTP that takes one request a connection. Package net/http would make the
// image of every guest a quarter larger.
type target struct {
	addr     string
	listener net.Listener

	mu      sync.Mutex
	phase   int
	changed chan struct{} // closed when the phase changes
	got     int64         // requests that it took
}

func newTarget() (*target, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &target{addr: l.Addr().String(), listener: l, changed: make(chan struct{})}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go t.serve(c)
		}
	}()
	return t, nil
}

// set changes what the target does. A nil one does nothing.
func (t *target) set(phase int) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.phase = phase
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *target) close() error {
	if t == nil {
		return nil
	}
	t.set(works) // whoever hangs goes on
	return t.listener.Close()
}

// serve answers the request of a connection, as the phase is.
func (t *target) serve(c net.Conn) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * phaseTime))
	r := bufio.NewReader(c)
	text := textproto.NewReader(r)
	if _, err := text.ReadLine(); err != nil {
		return
	}
	header, err := text.ReadMIMEHeader()
	if err != nil {
		return
	}
	t.mu.Lock()
	phase, changed := t.phase, t.changed
	t.mu.Unlock()
	if phase == breaks {
		return
	}
	// Who has not been read to the end may lose the answer.
	length, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
	if err == nil {
		_, err = io.CopyN(io.Discard, r, length)
	}
	status, body := "200 OK", []byte(nil)
	switch {
	case err != nil:
		status = "411 Length Required"
	case phase == refuses:
		status = "503 Service Unavailable"
	case phase == hangs:
		<-changed
		status = "504 Gateway Timeout"
	case phase == lies:
		body = bytes.Repeat([]byte("\xff no answer "), 1000)
	default:
		t.mu.Lock()
		t.got++
		t.mu.Unlock()
	}
	io.WriteString(c, "HTTP/1.1 "+status+"\r\nConnection: close\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n")
	c.Write(body)
}
