// Package line prints events as a table for a terminal: one line an event, aligned in columns and
// cut to a width. What processes choose themselves, such as their arguments, is quoted: no byte of
// it that a terminal could take as a command gets through.
package line
