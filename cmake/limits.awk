# The table of limits of the guide as a program that compiles only where the numbers are true:
#
#   awk -f cmake/limits.awk examples/guide/limits.md | cc -I include -I plugin -fsyntax-only -x c -
#
# A row is "| what | 64 MiB | `CONSTANT` | ... |"; what stands behind the number is a unit, of which
# KiB and MiB count.

BEGIN {
    FS = " *\\| *"
    print "#include <evzmq/evzmq.h>\n#include <evzmq/msgpack.h>"
    print "#include \"drain.h\"\n#include \"unpack.h\""
}
$4 ~ /^`EVZMQ_[A-Z0-9_]+`$/ {
    constant = substr($4, 2, length($4) - 2)
    split($3, number, " ")
    gsub(/,/, "", number[1])
    factor = number[2] == "KiB" ? 1024 : number[2] == "MiB" ? 1024 * 1024 : 1
    printf "#line %d \"%s\"\n", FNR, FILENAME
    printf "_Static_assert(%s == %d, \"the guide says: %s\");\n", constant, number[1] * factor, $3
}
