package prom

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server serves the metrics of a collector and of the process at /metrics, in a goroutine. Slow,
// idle or numerous clients can delay only each other.
type Server struct {
	listener net.Listener
	http     http.Server
	done     chan struct{}
}

// maxScrapes limits the parallel requests; others get 503.
const maxScrapes = 4

// Listen serves at a TCP address HOST:PORT. Without a host it listens on all interfaces.
func Listen(address string, c *Collector) (*Server, error) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("serve metrics: %w: another program uses the port, choose another port", err)
	case err != nil:
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "quark: metrics are at /metrics") })
	s := &Server{listener: l, done: make(chan struct{}), http: http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(l) // until Close
	}()
	return s, nil
}

// Addr returns the address on which the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close ends the server, within a second if clients are slow.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	<-s.done
	return err
}
