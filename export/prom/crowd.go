package prom

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

// crowd bounds the connections of a server. One too many closes the oldest one that is not being
// answered, or itself if all are. Idle clients thus cannot keep others out, as they could if others
// had to wait for a timeout.
type crowd struct {
	most int

	mu        sync.Mutex
	waiting   []net.Conn // for a request, or for the rest of one, the oldest first
	answering map[net.Conn]bool
}

// state is called by http.Server when a connection changes its state.
func (c *crowd) state(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.waiting = append(c.waiting, conn)
		if len(c.waiting)+len(c.answering) > c.most {
			c.waiting[0].Close() // its state is then StateClosed
			c.waiting = slices.Delete(c.waiting, 0, 1)
		}
	case http.StateClosed, http.StateHijacked:
		c.leaveWaiting(conn)
		delete(c.answering, conn)
	}
}

func (c *crowd) leaveWaiting(conn net.Conn) {
	c.waiting = slices.DeleteFunc(c.waiting, func(w net.Conn) bool { return w == conn })
}

type connKey struct{}

// remember lets handle know the connection of a request.
func (c *crowd) remember(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// handle wraps the handler of all requests.
func (c *crowd) handle(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := r.Context().Value(connKey{}).(net.Conn)
		c.mu.Lock()
		c.leaveWaiting(conn)
		c.answering[conn] = true
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.answering, conn)
			c.waiting = append(c.waiting, conn)
		}()
		h.ServeHTTP(w, r)
	})
}
