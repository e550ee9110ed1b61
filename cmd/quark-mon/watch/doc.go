// Package watch is the program quark-mon: it prints what processes do, see docs/quark-mon.8.
//
// It is a package because it makes two commands. quark-mon has no exporter of metrics and of
// OpenTelemetry linked in, which take 3 MiB of memory also when nobody uses them. quark-export has
// them; quark-mon becomes quark-export where its options ask for one.
package watch
