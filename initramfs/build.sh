#!/bin/bash
# build.sh FILE - make an image of guests by its name, initramfs[-debug][-ARCH].gz
#
# It has the commands. -debug has a shell and a few commands, too. FILES="FILE..." are further files
# for the root directory; the types of local kernels are there. GOARCH is the architecture of a name
# without one. The file is left alone when nothing has changed in it.
set -euo pipefail
cd "$(dirname -- "${BASH_SOURCE[0]}")/.."
for f in ${FILES-}; do
	[[ -f $f && -r $f ]] || { echo "build.sh: FILES: no readable file $f" >&2 && exit 2; }
done

file=$1 name=${1%.gz} GO=${GO:-go}
case $name in
*-amd64 | *-arm64) arch=${name##*-} name=${name%-*} ;;
*) arch=${GOARCH:-$("$GO" env GOARCH)} ;;
esac
host() { GOOS='' GOARCH='' "$GO" "$@"; }
build() { GOOS=linux GOARCH=$arch "$GO" build -buildvcs=false -trimpath -ldflags '-s -w' "$@"; }
export CGO_ENABLED=0
out=$PWD/build/$arch
mkdir -p "$out"

build -o "$out/init" ./initramfs/init
dirs=(initramfs/gotest)
for dir in cmd/*/; do
	[[ $dir = cmd/quark-matrix/ ]] || dirs+=("${dir%/}")
done
GO=$GO GOARCH=$arch initramfs/multicall.sh "$out/guest" "${dirs[@]}"
names=${dirs[*]##*/}
args=(-arch "$arch" -init "$out/init" -multi "$out/guest=${names// /,}")
limit=8000000
case $name in
initramfs) ;;
initramfs-debug)
	rm -rf "$out/debug" && mkdir -p "$out/debug"
	(cd initramfs/debug && build -tags goshsmall -o "$out/debug/" tool)
	mv "$out/debug/gosh" "$out/debug/sh"
	limit=
	;;
*)
	echo "build.sh: $file: no such image" >&2
	exit 2
	;;
esac
for f in ${FILES-} kernel_images/local/*.btf; do
	[[ ! -e $f ]] || { args+=(-file "$f") && limit=; }
done
[[ $name != initramfs-debug ]] || args+=("$out"/debug/*)

host run ./initramfs -o "$file.new" "${args[@]}"
if [[ -n $limit ]] && (($(wc -c <"$file.new") > limit)); then
	echo "$file: more than 8 MB: every guest takes longer to boot" >&2
	exit 1
fi
if cmp -s "$file.new" "$file"; then rm "$file.new"; else mv "$file.new" "$file"; fi
