#!/bin/sh
# Whether calls.txt is complete: every function that the library calls and does not define is named
# there, so that nobody begins to call one without thinking of its failures.
#
#   sh calls.sh LIST LIBRARY.a
#
# It prints the lines that cmocka would, for whoever counts tests.
set -u

list=$1
library=$2
name=every_function_that_is_called_is_in_the_list
echo "[==========] Running 1 test(s)."
echo "[ RUN      ] $name"

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
nm "$library" >"$work/symbols" || exit 1
# What compilers make of a name is undone: fortified forms, those for large files, sanitizers, and
# the bcmp that clang makes of a memcmp whose order nobody asks for.
sed -n 's/^ *U \(.*\)/\1/p' "$work/symbols" | sed -E \
    -e '/^__(asan|ubsan|lsan|tsan|msan|sanitizer|gcov|llvm|cyg)_/d' \
    -e 's/^bcmp$/memcmp/' -e 's/^__isoc[0-9]+_//' -e 's/^__(.*)_chk$/\1/' -e 's/64$//' -e 's/^_Unwind_.*//' |
    LC_ALL=C sort -u >"$work/called"
sed -nE 's/^[0-9a-f]+ [A-Za-z] (.*)/\1/p' "$work/symbols" | LC_ALL=C sort -u >"$work/defined"
sed -nE 's/^([A-Za-z_][A-Za-z0-9_]*) .*/\1/p' "$list" | LC_ALL=C sort -u >"$work/listed"

LC_ALL=C comm -23 "$work/called" "$work/defined" | sed '/^$/d' >"$work/outside"
if [ ! -s "$work/outside" ] || ! [ -s "$work/listed" ]; then
    echo "calls.sh: nothing to compare"
    exit 1
fi
missing=$(LC_ALL=C comm -23 "$work/outside" "$work/listed")
if [ -n "$missing" ]; then
    echo "Called and not in $list:"
    echo "$missing"
    echo "[  FAILED  ] $name"
    exit 1
fi
echo "[       OK ] $name"
echo "[==========] 1 test(s) run."
