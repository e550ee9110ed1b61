#!/bin/bash
# image.sh OUTPUT ARCH=STAGE... - write an OCI layout with an image for each architecture, as a tar
#
# STAGE is a directory that make install has filled with PREFIX=/usr. The image has the commands and
# no other program. crane changes images in a registry only, so one runs here meanwhile. VERSION and
# SOURCE_DATE_EPOCH are in the environment, and TOOL, the command line of go tool.
set -euo pipefail

output=$1
shift
work=$(mktemp -d)
trap 'kill "$registry" 2>/dev/null || true; rm -rf -- "$work"' EXIT
crane=$(env $TOOL -n crane) # of go tool itself a child would stay
crane() { "$crane" "$@" >>"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }; }
# archive DIR makes the same bytes of the same files.
archive() {
	tar -C "$1" --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - .
}

: >"$work/registry"
"$crane" registry serve --address 127.0.0.1:0 >"$work/registry" 2>&1 &
registry=$!
until port=$(grep -om1 'serving on port [0-9]*' "$work/registry"); do
	kill -0 "$registry" || { cat "$work/registry" >&2; exit 1; }
	sleep 0.1
done
address=127.0.0.1:${port##* }
tag=${VERSION#v} tag=${tag//+/-} # a tag has no plus sign
manifests=()
for operand in "$@"; do
	arch=${operand%%=*} stage=${operand#*=} root=$work/$arch
	mkdir -p "$root"/{etc,usr/share/doc/quark}
	cp -a "$stage/usr/bin" "$root/usr/"
	cp "$stage/usr/share/doc/quark/LICENSE" "$root/usr/share/doc/quark/"
	printf 'root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n' >"$root/etc/passwd"
	printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
	archive "$root" >"$work/$arch.tar"
	image=$address/quark:$tag-$arch
	crane append --oci-empty-base -f "$work/$arch.tar" -t "$image"
	crane mutate "$image" -t "$image" --set-platform "linux/$arch" --user 0:0 --workdir / --env PATH=/usr/bin \
		--entrypoint /usr/bin/quark-mon --cmd=--ebpf,--no-snapshot,--json \
		--label org.opencontainers.image.title=quark --label "org.opencontainers.image.version=$VERSION" \
		--label org.opencontainers.image.licenses=Apache-2.0 --label org.opencontainers.image.source=https://github.com/quark-linux/quark
	manifests+=(-m "$image")
done
crane index append "${manifests[@]}" -t "$address/quark:$tag"
crane pull --format=oci --annotate-ref "$address/quark:$tag" "$work/layout"
# The name of the image is its tag alone.
sed -i "s|$address/quark:||" "$work/layout/index.json"
chmod -R u=rwX,go=rX "$work/layout"
archive "$work/layout" >"$output.new"
mv -- "$output.new" "$output"
