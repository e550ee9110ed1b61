// Package proctext parses the texts of /proc/PID: stat, cgroup and the links of namespaces. It is
// the only parser of these texts, except that fidelity/truth has its own: a defect here must not be
// part of the ground truth.
//
// The parsers allocate no memory and accept only complete, well-formed texts.
package proctext
