// Command kernel_images fetches stock distribution kernels to boot with krun.sh.
//
// The catalogue (package catalogue) names kernels by series, flavour, architecture and suite;
// lock.json says which package each row was last resolved to, with the checksum of the image, so
// that everybody tests the same. For each wanted row that package, or the newest of its series if
// it is gone from the archive, is downloaded by the machine's own apt, with the mirror of its own
// configuration and signatures checked, but in a private state: nothing of the system's apt changes
// and no privilege is needed. The image is taken out of the package and kept in the user's cache
// with its checksum; the package is not kept. A cached image is used without asking the network,
// and links under kernel_images/ARCH/ point to it. What was fetched before an interruption is not
// fetched again.
//
//	go run ./kernel_images                     # the default rows
//	go run ./kernel_images '5.10-*' newest-cloud-amd64
//	go run ./kernel_images -u                  # look for newer packages, and lock them
//
// With -t it gets no images but the types (BTF) of kernels of all of Debian's suites, for the
// archive of package btfhub; see 'make btfhub'.
//
//	go run ./kernel_images -t DIR -n 3 '*-cloud-*'
//
// With -b it builds a kernel that no package has, 5.10 without types (nobtf.config), from Debian's
// source package, and beside the image a file with the types, from the debug information of the
// same build; see 'make kernel-nobtf'.
package main
