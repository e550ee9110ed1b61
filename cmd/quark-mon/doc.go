// Command quark-mon prints what processes do: forks, execs, exits, changes of ids and names. See
// docs/quark-mon.8 or run quark-mon -h.
package main
