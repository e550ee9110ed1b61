// Package line prints events as a table for a terminal: one line for each event, in aligned
// columns, cut to a width. Processes choose their arguments and other texts. These are quoted, so
// that the terminal cannot read any byte as a command.
package line
