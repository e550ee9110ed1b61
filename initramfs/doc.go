// Command initramfs builds the initial file system in which quark's tools run on a kernel booted by
// krun.sh.
//
// The image is a gzipped newc archive. It has quark's pid 1 at /init, the given static binaries in
// /bin, one of them under several names (-multi, see initramfs/multicall), further files in the
// root (-file), and the directories, device nodes and account files that they need.
//
// The same input files give the same bytes, so a result may be cached by the image's digest, which
// the guest reports.
//
//	go run ./initramfs -o initramfs.gz -init build/amd64/init \
//		-multi build/amd64/guest=quark-mon,quark-test
package main
