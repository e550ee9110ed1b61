#!/bin/bash
# twice.sh ARCHES - make dist in two clones in other folders, in the second with nothing compiled
# before, and compare the bytes
set -euo pipefail
cd "$(dirname -- "${BASH_SOURCE[0]}")/.."

unset VERSION SOURCE_DATE_EPOCH MAKEFLAGS MAKEOVERRIDES
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf -- "$dir"' EXIT
for place in here else/where; do
	git clone -q . "$dir/$place"
	make --no-print-directory -C "$dir/$place" dist DIST_ARCHES="$1"
	export GOCACHE=$dir/cache
done
diff -r "$dir/here/build/dist" "$dir/else/where/build/dist"
cat "$dir/here/build/dist/SHA256SUMS"
