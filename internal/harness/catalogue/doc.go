// Package catalogue is the list of kernels that quark is tested on. A row says which kernel is
// meant by series, flavour and architecture, and not which package has it today.
package catalogue
