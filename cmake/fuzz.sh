#!/bin/sh
# Builds the fuzz targets with clang's libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer
# and lets each search for some seconds:
#
#   sh cmake/fuzz.sh [SECONDS] [TARGET...]      60 seconds, all targets
#
# What a target found worth keeping stays in build-fuzz/corpus/TARGET, so that the next run goes on
# from there. Prints a line for each target: executions, covered edges (cov) and features (ft) of
# the library and the target. An input that breaks a property stays in build-fuzz/findings, and the
# exit status is 1. To see what one does:  build-fuzz/tests/TARGET build-fuzz/findings/FILE
set -u
. "$(dirname -- "$0")/common.sh"

seconds=60
case ${1:-} in
'' | *[!0-9]*) ;;
*)
    seconds=$1
    shift
    ;;
esac
if [ $# = 0 ]; then
    # Not indented, and so no function's: see tests/CMakeLists.txt.
    set -- $(sed -n 's/^evzmq_add_test(fuzz \([a-z_]*\).*/\1/p' "$root/tests/CMakeLists.txt")
fi

clang=${CLANG:-clang}
if ! command -v "$clang" >/dev/null; then
    echo "This needs clang, which brings libFuzzer." >&2
    exit 1
fi
sanitize=address,undefined,float-cast-overflow
log=$root/build-fuzz/build.log
mkdir -p "$root/build-fuzz" || exit 1
for target in "$@"; do
    for program in "$target" "${target}_search"; do
        if ! build build-fuzz "$program" -DCMAKE_C_COMPILER="$clang" \
            -DCMAKE_BUILD_TYPE=RelWithDebInfo -DEVZMQ_SANITIZE="fuzzer-no-link,$sanitize" \
            -DEVZMQ_WERROR=ON -DEVZMQ_BUILD_TESTS=ON -DEVZMQ_BUILD_EXAMPLES=OFF -DEVZMQ_FUZZ=ON \
            >"$log" 2>&1; then
            cat "$log" >&2
            exit 1
        fi
    done
done

# search TARGET: runs it; its log is build-fuzz/TARGET.log.
search() {
    corpus=$root/build-fuzz/corpus/$1
    mkdir -p "$corpus" "$root/build-fuzz/seeds/$1" "$root/build-fuzz/findings" || return 1
    "$root/build-fuzz/tests/$1" --write "$root/build-fuzz/seeds/$1" || return 1
    # Leaks are looked for at the end, by the targets' own counts and by the sanitizer: libzmq
    # frees on threads of its own, for which libFuzzer takes every other input for a leak.
    UBSAN_OPTIONS=print_stacktrace=1 "$root/build-fuzz/tests/$1_search" \
        -max_total_time="$seconds" -max_len=4096 -timeout=60 -rss_limit_mb=2048 -detect_leaks=0 \
        -print_final_stats=1 -artifact_prefix="$root/build-fuzz/findings/$1-" \
        "$corpus" "$root/build-fuzz/seeds/$1" >"$root/build-fuzz/$1.log" 2>&1
}

# last NAME LOG: the last number that libFuzzer printed behind it.
last() {
    grep -o "$1: [0-9]*" "$2" | tail -n 1 | sed 's/.* //'
}

found=0
for target in "$@"; do
    verdict=ok
    if ! search "$target"; then
        verdict=FOUND
        found=$((found + 1))
    fi
    log=$root/build-fuzz/$target.log
    printf '%-16s %10s executions  cov %5s  ft %6s  %s\n' "$target" \
        "$(last 'number_of_executed_units' "$log")" "$(last cov "$log")" "$(last ft "$log")" \
        "$verdict"
    if [ "$verdict" != ok ]; then
        grep -v '^#' "$log" | tail -n 60
    fi
done
[ "$found" = 0 ]
