// Command quark-mon prints the activity of processes: forks, execs, exits, changes of ids and
// names. See docs/quark-mon.8 or run quark-mon -h.
package main
