// Package auditrecord decodes the kernel's audit records: lines of text that the kernel sends to
// its listener, and that auditd writes to its log.
//
// An event has one or more records, which share a time and a serial number. A record has a type,
// this stamp, and members NAME=VALUE. A value is a number, a text in quotes, or a text in
// hexadecimal digits, if it contains a quote, a space or an unprintable byte.
package auditrecord
