#!/bin/sh
# Compiles the objects of the tests: make.sh. It needs gcc and ld.
set -e
cd "$(dirname "$0")"
for form in 2 4 5; do
	for name in one two; do
		gcc -gdwarf-$form -gstrict-dwarf -O1 -fdebug-prefix-map="$PWD"=. -c $name.c -o $name.tmp
	done
	ld -r -o dwarf$form.o one.tmp two.tmp
done
objcopy --compress-debug-sections dwarf5.o packed.o
gcc -O1 -c one.c -o none.o
rm one.tmp two.tmp
