// Package line prints events as a table for a terminal: one line an event, aligned in columns and
// cut to a width. Texts that processes choose, such as arguments, are quoted: no byte that a
// terminal could interpret as a command gets through.
package line
