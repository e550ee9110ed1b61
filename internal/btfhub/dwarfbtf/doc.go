// Package dwarfbtf makes BTF of the few types that are wanted from a kernel's debug information
// (DWARF), for kernels that were built without CONFIG_DEBUG_INFO_BTF: those of RHEL before 8.2, for
// example. pahole would make all of it, which takes a program of the right age and minutes.
//
// Each file of the kernel's source has its own copy of what it includes. All copies are read: only
// so two structs of one name are found to be two.
package dwarfbtf
