// Package watch is the program quark-mon: it prints what processes do, see docs/quark-mon.8.
package watch
