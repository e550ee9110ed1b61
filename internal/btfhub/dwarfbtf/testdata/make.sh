#!/bin/sh
# Compiles the objects of the tests: make.sh. It needs gcc, ld and dwz.
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

# Types of all files in units of their own, as dwz puts them; with --multifile in another file.
for name in one two; do gcc -gdwarf-4 -O1 -fdebug-prefix-map="$PWD"=. -c $name.c -o $name.tmp; done
ld -e 0 -o whole.tmp one.tmp two.tmp one.tmp --allow-multiple-definition
dwz -o dwz.tmp whole.tmp
objcopy --only-keep-debug dwz.tmp dwz.o
rm ./*.tmp
