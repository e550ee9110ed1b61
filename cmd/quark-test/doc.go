// Command quark-test tests quark on the kernel that it runs on: for each
// backend it makes processes of which it knows everything and compares what quark
// says of them. It needs root and nothing else, so that it also runs alone in an
// initramfs. See quark-test -h.
//
// Truth is what the processes were told to do, what wait4(2) returned and what
// /proc shows of a process that is made to stand still; never anything else that
// quark said. Each test is in the file t_*.go of its subject.
package main
