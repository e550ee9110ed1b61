// Package features lists what each backend needs of a kernel: the feature, the first Linux that has
// it, and what is lost without it. Nothing is decided by the list, as the backends probe for what
// they use. It is documentation that a test compares with every kernel on which quark is tested.
package features
