// Package auditrecord decodes the records of the kernel's audit: lines of text that the kernel
// sends to who listens, and that auditd writes into its log.
//
// An event has one or more records, which share a time and a serial number. A record is its type,
// that stamp, and members NAME=VALUE. A value is a number, a text in quotes, or a text in
// hexadecimal digits, which is one that has a quote, a space or a byte that is not printable.
package auditrecord
