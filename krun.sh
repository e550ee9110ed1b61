#!/bin/bash
#
# krun.sh - boot a kernel image with an initramfs under qemu and run one command in it: ./krun.sh -h
#
# The work is done by `quark-matrix boot`, which is built here when it is missing or older than its
# source.

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
arch=$(uname -m)
arch=${arch/x86_64/amd64} arch=${arch/aarch64/arm64}
program=$root/build/$arch/quark-matrix

cannot() { echo "krun.sh: $*" >&2; exit 126; }

if command -v go >/dev/null; then
	newer=$(find "$root"/{go.mod,go.sum,cmd/quark-matrix,internal} -newer "$program" -print -quit 2>&1)
	if [[ -n $newer ]]; then
		mkdir -p "${program%/*}"
		(cd "$root" && GOOS= GOARCH= CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$program.$$" ./cmd/quark-matrix) ||
			cannot "cannot build $program from $root"
		mv -f "$program.$$" "$program"
	fi
elif [[ ! -x $program ]]; then
	cannot "no $program: 'make build' makes it on a machine with Go, which is not here"
fi
exec "$program" boot "$@"
