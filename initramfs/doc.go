// Command initramfs builds the initial file system in which quark's tools run on a kernel booted by krun.sh.
//
// It puts the given static binaries into /bin, quark's pid 1 at /init and other files named with -file into the root, with
// the directories, device nodes and account files that they need, into a gzipped newc archive. The archive depends on nothing but those files' bytes: building it
// twice gives the same bytes, so that a result may be cached by the image's digest, which the guest reports.
//
//	go run ./initramfs -o initramfs.gz -init build/amd64/init build/amd64/quark-mon build/amd64/quark-test
package main
