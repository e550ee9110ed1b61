// Package ctest tests libquark as programs in C and Python use it. It builds the library as make
// bindings does, compiles what is in testdata and examples, and runs it: C under valgrind, which
// sees each byte beyond what was allocated, whether C or Go touches it. It is no part of the
// library's folder, so that tests run without cgo, as all others do; those that lack a C compiler,
// valgrind or Python are skipped.
package ctest
