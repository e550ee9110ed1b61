// Package line prints events as a table for a terminal: one line for each event, in aligned
// columns, cut to a width. Processes choose texts such as their arguments, so these are quoted: no
// byte reaches the terminal that it could take for a command.
package line
