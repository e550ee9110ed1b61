// Package gotest runs the binaries of ordinary Go tests in a guest.
//
// The host puts the binaries, their testdata and a list of them into an archive (Archive), which is
// appended to the guest's image: the kernel unpacks one archive after the other. In the guest, the
// command gotest (Main) runs them, each in a copy of its package's directory. For go test -exec it
// reports the output, byte by byte, and the exit status. For quark-matrix it runs them as a Suite,
// as quark-test does: it parses the output (parser) and reports each test. Sum counts the results
// in the output of go test -json.
package gotest
