// Package proctext parses what /proc says of a process: stat, cgroup and the links of namespaces.
// It is the product's only parser of these texts. fidelity/truth has another one on purpose: a
// defect here must not be the truth that the product is judged by.
//
// The parsers allocate nothing and accept nothing but whole, well-formed texts.
package proctext
