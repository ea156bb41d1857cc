#!/bin/sh
# Builds evzmq with warnings as errors and runs its tests, first as they are and then under
# AddressSanitizer (with its leak check where the system allows it) and
# UndefinedBehaviorSanitizer. Installs what is missing.
set -u
. "$(dirname -- "$0")/common.sh"

passed=0 failed=0 skipped=0

# The leak check stops the program with ptrace, which some containers forbid.
leak_check() {
    probe=$root/build-test-sanitized/leak-check
    mkdir -p "$root/build-test-sanitized" &&
        echo 'int main(void) { return 0; }' >"$probe.c" &&
        "${CC:-cc}" -fsanitize=address -o "$probe" "$probe.c" >/dev/null 2>&1 &&
        ASAN_OPTIONS=detect_leaks=1 "$probe" >/dev/null 2>&1
}

# one NAME DIRECTORY CMAKE-ARGUMENTS...
one() {
    echo "== Tests: $1"
    one_dir=$2
    shift 2
    if ! build "$one_dir" all -DEVZMQ_WERROR=ON -DEVZMQ_BUILD_TESTS=ON -DEVZMQ_BUILD_EXAMPLES=ON \
        "$@"; then
        echo "The build failed." >&2
        failed=$((failed + 1))
        return
    fi
    run_tests "$one_dir"
}

if ! sh "$root/cmake/deps.sh" test; then
    exit 1
fi

one "plain" build-test-plain -DCMAKE_BUILD_TYPE=Release

leaks=1
if ! leak_check; then
    echo "Leaks are not looked for: the leak check does not run on this system."
    leaks=0
fi
ASAN_OPTIONS=detect_leaks=$leaks:detect_stack_use_after_return=1:strict_string_checks=1
UBSAN_OPTIONS=print_stacktrace=1
export ASAN_OPTIONS UBSAN_OPTIONS
one "address and undefined behaviour sanitizers" build-test-sanitized \
    -DCMAKE_BUILD_TYPE=Debug -DEVZMQ_SANITIZE=address,undefined

closing_line
[ "$failed" = 0 ]
