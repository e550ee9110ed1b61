// Command initramfs builds the initial file system in which quark's tools run on a kernel booted by
// krun.sh.
//
// The image is a gzipped newc archive with quark's pid 1 at /init, static binaries in /bin, one of
// them under several names (-multi, see multicall.sh), additional files in the root (-file), and
// the directories, device nodes and account files that they need.
//
// The same input files give the same bytes, so the digest of the image can be a cache key.
//
//	go run ./initramfs -o initramfs.gz -init build/amd64/init \
//		-multi build/amd64/guest=quark-mon,quark-test
package main
