#!/bin/sh
# How much of plugin/ the tests run: builds without optimisation and with gcc's counters, runs the
# unit, behaviour and interop tests, prints a table and holds the totals against a floor.
#
#   sh cmake/coverage.sh [LINES BRANCHES]    per cent; default: no floor
#
# Assertions are compiled out (NDEBUG), so that a branch no run may take does not count. No line is
# excluded by a marker. Line by line: build-ci-coverage/coverage.html.
set -u
. "$(dirname -- "$0")/common.sh"
passed=0 failed=0 skipped=0
lines=${1:-0}
branches=${2:-0}

if ! command -v gcovr >/dev/null; then
    echo "This needs gcovr." >&2
    exit 1
fi
build build-ci-coverage all -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=None \
    "-DCMAKE_C_FLAGS=-O0 -g --coverage -DNDEBUG" \
    -DEVZMQ_BUILD_TESTS=ON -DEVZMQ_BUILD_EXAMPLES=OFF || exit 1
# What an earlier run counted.
find "$root/build-ci-coverage" -name '*.gcda' -exec rm -f {} +
run_tests build-ci-coverage -L 'unit|behaviour|interop|fuzz'
cd "$root" || exit 1
# Threads count without a lock, which gcov may find impossible; a line was run or not all the same.
gcovr --root . --filter 'plugin/' --gcov-ignore-parse-errors \
    --html-details build-ci-coverage/coverage.html --txt build-ci-coverage/coverage.txt \
    --print-summary --fail-under-line "$lines" --fail-under-branch "$branches" build-ci-coverage
status=$?
cat build-ci-coverage/coverage.txt
closing_line
[ "$status" = 0 ] && [ "$failed" = 0 ]
