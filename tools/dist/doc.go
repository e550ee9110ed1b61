// Command dist makes what a release of quark consists of: archives, packages for Debian and for
// rpm, the container image, lists of parts (SBOM) and checksums. Each is made of a directory tree
// that make install has made, so dist has no list of files of its own. The same trees, version and
// time give the same bytes. It is a module of its own: who imports quark gets none of its
// dependencies.
package main
