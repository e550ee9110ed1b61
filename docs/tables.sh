#!/bin/bash
# tables.sh fidelity|bench|kernels - put the tables of the last run into the documents
#
# The run was make fidelity, make bench on a host that has nothing else to do, or make test-kernel.
set -euo pipefail
cd "$(dirname -- "${BASH_SOURCE[0]}")/.."

bin=build/$(go env GOARCH)
# into NAME FILE replaces the lines of FILE between those that begin with <!-- NAME and <!-- end.
into() {
	awk -v name="$1" '/^<!-- end -->/ && on {while ((getline line < "build/table.md") > 0) print line; on = 0}
		!on {print} index($0, "<!-- " name) == 1 {on = 1}' "$2" >build/into.md
	mv build/into.md "$2"
}
fence() { echo '```'; cat; echo '```'; }

case ${1-} in
fidelity)
	"$bin/quark-fidelity" report build/fidelity.jsonl | cat -s | fence >build/table.md
	into fidelity docs/fidelity.md
	;;
bench)
	fence <build/bench.txt >build/table.md
	into bench docs/benchmark.md
	;;
kernels)
	"build/$(go env GOHOSTARCH)/quark-matrix" report | fence >build/table.md
	into kernels docs/kernels.md
	;;
*) echo 'tables.sh: fidelity, bench or kernels' >&2; exit 2 ;;
esac
