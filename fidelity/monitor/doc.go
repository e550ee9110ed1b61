// Package monitor runs other programs that watch processes, and presents their output as a queue,
// so that package score can score it like quark's backends.
//
// A [Monitor] describes how to run a program, and its [Decoder] turns lines into events. Its
// capability table declares the fields of the output. There is no engine behind the queue: an event
// has the printed values only. [Start] runs a monitor below a supervisor process (package
// supervisor), and returns once the monitor has reported a test process. [ReadFormat] makes a
// Monitor of any command that prints JSON lines.
package monitor
