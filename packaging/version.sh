#!/bin/bash
# version.sh - print the version of what is checked out, by semver.org
#
# vX.Y.Z at the tag of a release; after it, or before the first one, a pre-release of the next:
# vX.Y.Z-dev.COMMITS+gHASH. "+dirty" follows what is not committed.
set -euo pipefail
cd "$(dirname -- "${BASH_SOURCE[0]}")/.."

first=v0.1.0 # the next release while there is none
if ! head=$(git rev-parse --short=9 HEAD 2>/dev/null); then
	echo "version.sh: this is no clone of git's: say VERSION=vX.Y.Z to make" >&2
	exit 1
fi
if tag=$(git describe --tags --abbrev=0 --match 'v[0-9]*.[0-9]*.[0-9]*' 2>/dev/null); then
	commits=$(git rev-list --count "$tag..HEAD")
	version=$tag
	if ((commits)); then
		[[ $tag == *-* ]] || version=${tag%.*}.$((${tag##*.} + 1))
		version+=-dev.$commits+g$head
	fi
else
	version=$first-dev.$(git rev-list --count HEAD)+g$head
fi
if [[ -n $(git status --porcelain --untracked-files=no) ]]; then
	if [[ $version == *+* ]]; then version+=.dirty; else version+=+dirty; fi
fi
echo "$version"
