// Package ctest tests libquark as programs in C and Python use it. It builds the library as make
// bindings does, compiles the programs in testdata and examples, and runs them: C under valgrind,
// which reports each invalid access by C or Go. The package is outside the library's folder, so
// that its tests run without cgo, like all others. Tests that lack a C compiler, valgrind or Python
// are skipped.
package ctest
