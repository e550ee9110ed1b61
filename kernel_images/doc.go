// Command kernel_images fetches distribution kernels to boot with krun.sh.
//
// The catalogue (package catalogue) names kernels by series, flavour, architecture and suite.
// lock.json has the package of each row and the checksum of its image, so that everyone tests the
// same kernels. The machine's own apt downloads the locked package, or the newest one of the series
// if the archive no longer has it. It uses the machine's mirror and checks signatures, but has a
// private state, so the system's apt is unchanged and no privilege is needed. The user's cache
// keeps the image and its checksum; a cached image needs no network. Links under
// kernel_images/ARCH/ point to the images.
//
//	go run ./kernel_images                     # the default rows
//	go run ./kernel_images '5.10-*' newest-cloud-amd64
//	go run ./kernel_images -u                  # look for newer packages, and lock them
package main
