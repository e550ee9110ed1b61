package prom

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

// crowd limits the connections of a server. A new connection beyond the limit closes the oldest
// connection that has no request in progress or, if all have one, is itself closed. So idle clients
// cannot block other clients until a timeout.
type crowd struct {
	most int

	mu        sync.Mutex
	waiting   []net.Conn // connections without a complete request, oldest first
	answering map[net.Conn]bool
}

// state implements http.Server.ConnState.
func (c *crowd) state(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.waiting = append(c.waiting, conn)
		if len(c.waiting)+len(c.answering) > c.most {
			c.waiting[0].Close() // changes its state to StateClosed
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

// withConn stores the connection in the context of its requests, for handle.
func (c *crowd) withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// handle returns h, wrapped to track connections with a request in progress.
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
