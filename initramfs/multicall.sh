#!/bin/bash
# multicall.sh FILE DIR... - build one binary out of several commands of this module
#
# The image holds it under the name of each, as hard links: the Go runtime and the packages that the
# commands share are in the image once. A command's package main cannot be imported, so its files
# are compiled, by means of go build -overlay, as a package of another name whose main is exported.
# Neither the source tree nor the commands have a trace of that.
#
#	GOARCH=amd64 initramfs/multicall.sh build/amd64/guest cmd/quark-mon cmd/quark-test
set -euo pipefail
shopt -s extglob

cannot() { echo "multicall.sh: $*" >&2; exit 1; }

(($# >= 2)) || cannot 'FILE and DIR... are wanted'
out=$1
shift
module=github.com/quark-linux/quark
virtual=initramfs/multicall # only the overlay has it
temp=$(mktemp -d)
trap 'rm -rf -- "$temp"' EXIT

imports= commands= replace=
for dir; do
	name=${dir##*/}
	package=${name//-/}
	mkdir "$temp/$package"
	for file in "$dir"/!(*_test).go; do
		to=$package/${file##*/}
		sed "s/^package main\$/package $package/; s/^func main() /func Main() /" "$file" >"$temp/$to"
		# below the command's directory, so that it may use its internal packages
		replace+="\"$PWD/$dir/$to\": \"$temp/$to\", "
	done
	grep -q '^func Main() ' "$temp/$package"/*.go || cannot "$dir has no func main"
	imports+="\"$module/${dir#./}/$package\""$'\n'
	commands+="\"$name\": $package.Main,"$'\n'
done

# The name of the executed file selects the command, not argv[0], which tests set. Tests and
# scenarios copy their program to other names; such a copy runs the scenario or test that its
# environment or arguments name.
cat >"$temp/main.go" <<END
package main

import (
	"os"
	"path/filepath"

	"$module/fidelity"
	$imports
)

var commands = map[string]func(){
	$commands
}

func main() {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		path = os.Args[0]
	}
	if command := commands[filepath.Base(path)]; command != nil {
		command()
		return
	}
	fidelity.Main()
	commands["quark-test"]()
}
END
echo "{\"Replace\": {$replace\"$PWD/$virtual/main.go\": \"$temp/main.go\"}}" >"$temp/overlay.json"
# -s -w: symbols would be a third of the binary.
CGO_ENABLED=0 GOOS=linux "${GO-go}" build -buildvcs=false -trimpath -ldflags='-s -w' -overlay="$temp/overlay.json" -o "$out" "./$virtual"
