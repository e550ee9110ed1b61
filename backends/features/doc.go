// Package features says what each backend asks of a kernel: which feature, since which Linux there is one, and what is lost
// without it. Nothing is decided by it, as the backends probe for what they use themselves; it is documentation that a test
// holds against every kernel on which quark is tested, older ones included, so that it stays true.
package features
