// Package procpoll is the source that reads /proc at an interval. It needs no privilege and nothing
// of the kernel but /proc, and it sees of short lives only those that a reading falls into: it is
// the baseline that sources with events are to be compared with.
//
// A process that is first seen is a FORK, with its true start time; another image is an EXEC; a
// process that is gone, or a zombie, is an EXIT. All that happened since the reading before has a
// time after that reading: an EXEC and an EXIT that of the reading that shows them, a FORK that of
// the end of the tick in which the process started. What /proc says is of the time of the reading
// and may have changed since the event, so that it is carried, except what never changes.
//
// A process is told by its number and start time, which /proc has in ticks of 10 ms. Of two with
// one number that were started in one tick the second is taken for the first, unless a pidfd
// (Linux 5.3) has shown that this one was over: its image is then told as an EXEC of the first,
// and it is counted as missed.
//
// What comes and goes between two readings is missed. The kernel counts the tasks that it makes, so
// that the number of those missed is known exactly, but for those made during the first reading.
// It is that of the whole machine: what /proc does not show here, as it is of another pid
// namespace or hidden (hidepid), is missed too. And it has threads, so that of processes it is
// known how many they are at most. Of several execs between two readings the last is seen, and
// nothing counts the others. Where the addresses of images are not random (setarch -R), an exec
// after the first is seen from Linux 5.3 on, unless a process that shares the memory keeps the
// image before.
package procpoll
