// Command kernel_images fetches stock distribution kernels to boot with krun.sh.
//
// The catalogue (package catalogue) names kernels by series, flavour, architecture and suite.
// lock.json has the package of each row and the checksum of its image, so that everybody tests the
// same kernels. The machine's own apt downloads the locked package, or the newest one of the series
// if the archive no longer has it: with the machine's mirror and with signatures checked, but in a
// private state, so that the system's apt is unchanged and no privilege is needed. The user's cache
// keeps the image of the package with its checksum. A cached image needs no network. Links under
// kernel_images/ARCH/ point to the images.
//
//	go run ./kernel_images                     # the default rows
//	go run ./kernel_images '5.10-*' newest-cloud-amd64
//	go run ./kernel_images -u                  # look for newer packages, and lock them
package main
