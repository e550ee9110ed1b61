#!/bin/bash
# build.sh DIR - build libquark for GOARCH into DIR: lib/libquark.so.0, the link libquark.so and
# lib/libquark.a, include/quark.h and lib/pkgconfig/quark.pc. It needs a C compiler for GOARCH:
# another one than gcc in CC. QUARK_VERSION is the version that pkg-config tells. STRIP= leaves
# what the linker would strip, in the words of go tool link, for valgrind(1).
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
mkdir -p -- "$1"/lib/pkgconfig "$1"/include
out=$(cd -- "$1" && pwd)

arch=$(${GO:-go} env GOARCH)
case $arch in # of machines that build for the other one
amd64) cross=x86_64-linux-gnu-gcc ;;
*) cross=aarch64-linux-gnu-gcc ;;
esac
[[ -n ${CC-} || $arch = "$(${GO:-go} env GOHOSTARCH)" ]] || export CC=$cross

# Neither the C library's resolver nor its users: what quark does not use is not linked.
strip=${STRIP--s -w}
# Without a build id, which would have the path of quark.map: the bytes are the same in each folder.
build=(env GOOS=linux CGO_ENABLED=1 "${GO:-go}" build -C "$here" -buildvcs=false -trimpath -tags "netgo osusergo")
"${build[@]}" -buildmode=c-shared -ldflags "$strip -buildid= -extldflags '-Wl,-soname,libquark.so.0 -Wl,--version-script=$here/quark.map'" \
	-o "$out"/lib/libquark.so.0 .
"${build[@]}" -buildmode=c-archive -ldflags "$strip" -o "$out"/lib/libquark.a .
# cgo's own headers, of what C and Go call of each other.
rm -f -- "$out"/lib/libquark.so.h "$out"/lib/libquark.h
ln -sf libquark.so.0 "$out"/lib/libquark.so
cp -- "$here"/quark.h "$out"/include/
sed "s/@VERSION@/${QUARK_VERSION:-0.0.0}/" "$here"/quark.pc.in >"$out"/lib/pkgconfig/quark.pc
