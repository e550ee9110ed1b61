// Package taskrecord asks the kernel's taskstats for the ends of threads, and decodes its records:
// generic netlink, family TASKSTATS, CONFIG_TASKSTATS.
//
// The kernel makes a record for each thread that ends, before the thread makes any other report of
// that. A record has what the thread used, its wait status and, from Linux 5.19 on, its process. It
// has no stamp.
package taskrecord
