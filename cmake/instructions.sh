#!/bin/sh
# Counts the instructions that receiving one message costs, by valgrind's callgrind, and prints a
# table: how many more than a bare libzmq loop an adapter with the raw codec needs.
#
#   cmake/instructions.sh          builds a release, prints the table
#   cmake/instructions.sh LIMIT    fails too when the mode `into` needs more than LIMIT
#
# bare: a loop without libevent that receives and reads size and more-flag; copy: it copies the bytes
# as well, as the mode `into` does. Each is run twice, with more messages the second time; the
# difference is what a message costs, without what is done once. Instructions of the kernel are not
# counted: there are none for a message.
set -u
. "$(dirname -- "$0")/common.sh"

limit=${1:-}
few=2000 many=10000

if ! command -v valgrind >/dev/null; then
    echo "This needs valgrind." >&2
    exit 1
fi
dir=build-instructions
if ! build "$dir" receive_cost -DCMAKE_BUILD_TYPE=Release -DEVZMQ_BUILD_TESTS=ON \
    -DEVZMQ_BUILD_EXAMPLES=OFF >"$root/$dir.log" 2>&1; then
    cat "$root/$dir.log" >&2
    exit 1
fi
mv "$root/$dir.log" "$root/$dir/build.log"

# executed KIND MESSAGES BYTES: the instructions of one run.
executed() {
    valgrind --tool=callgrind --collect-atstart=no --toggle-collect=receive_bare \
        --toggle-collect=receive_adapter --callgrind-out-file="$root/$dir/callgrind.out" \
        "$root/$dir/tests/receive_cost" "$@" 2>"$root/$dir/callgrind.log" ||
        { cat "$root/$dir/callgrind.log" >&2; return 1; }
    sed -n 's/^.*Collected : \([0-9]*\)$/\1/p' "$root/$dir/callgrind.log"
}

# cost KIND BYTES: the instructions of one message.
cost() {
    cost_few=$(executed "$1" "$few" "$2") && cost_many=$(executed "$1" "$many" "$2") &&
        echo $(((cost_many - cost_few + (many - few) / 2) / (many - few)))
}

status=0
printf '%6s %6s %6s %6s %9s %12s %16s\n' bytes bare copy into in-place 'into - copy' \
    'in-place - bare'
for bytes in 32 500 4096; do
    bare=$(cost bare "$bytes") && copy=$(cost copy "$bytes") && into=$(cost into "$bytes") &&
        in_place=$(cost in-place "$bytes") || exit 1
    printf '%6s %6s %6s %6s %9s %12s %16s\n' "$bytes" "$bare" "$copy" "$into" "$in_place" \
        $((into - copy)) $((in_place - bare))
    if [ -n "$limit" ] && [ $((into - copy)) -gt "$limit" ]; then
        status=1
    fi
done
if [ "$status" != 0 ]; then
    echo "More than $limit instructions over the loop that copies." >&2
fi
exit "$status"
