# What test.sh, quickstart.sh and .ci/run share; sourced by them, never run. The caller's directory
# is one below the root of the project.

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd) || exit 1
jobs=$(nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)

# build DIRECTORY TARGET CMAKE-ARGUMENTS...: configures and builds in $root/DIRECTORY. A directory
# configured for another place or compiler is of no use and is made anew.
build() {
    build_dir=$root/$1
    build_target=$2
    shift 2
    if [ -f "$build_dir/CMakeCache.txt" ] &&
        ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build_dir/CMakeCache.txt"; then
        rm -rf "$build_dir"
    fi
    cmake -S "$root" -B "$build_dir" "$@" &&
        cmake --build "$build_dir" --parallel "$jobs" --target "$build_target"
}

# count_tests LOG STATUS: prints "passed failed skipped" of a ctest log. What is counted is cmocka's
# tests, not executables; a test that began and did not end has failed, and so has an executable
# that failed outside its tests. STATUS is ctest's, in case the log knows less.
count_tests() {
    awk -v status="$2" '
        function flush() {
            if (!name) {
                return
            }
            bad = run - ok - skip
            if (!good && bad == 0) {
                bad = 1
            }
            if (good && run == 0) {
                ok = 1
            }
            passed += ok
            failed += bad
            skipped += skip
            name = ""
        }
        /^[0-9]+\/[0-9]+ Testing: / { flush(); name = $3; run = ok = skip = good = ended = 0 }
        /\[==========\] .*Running [0-9]+ test\(s\)/ { ended = 0 }
        /\[==========\] .*[0-9]+ test\(s\) run/ { ended = 1 } # Then a summary names some again.
        /\[ RUN      \] / { run++ }
        /\[       OK \] / { ok++ }
        /\[  SKIPPED \] / && !ended { skip++ }
        /^Test Passed\.$/ { good = 1 }
        END {
            flush()
            if (status != 0 && failed == 0) {
                failed = 1
            }
            print passed + 0, failed + 0, skipped + 0
        }' "$1"
}

# run_tests DIRECTORY CTEST-ARGUMENTS...: runs the tests that were built there and adds their counts
# to $passed, $failed and $skipped. No tests at all is a failure.
run_tests() {
    test_dir=$root/$1
    shift
    rm -f "$test_dir/Testing/Temporary/LastTest.log"
    (cd "$test_dir" && ctest --output-on-failure --parallel "$jobs" "$@")
    test_status=$?
    if [ -f "$test_dir/Testing/Temporary/LastTest.log" ]; then
        test_counts=$(count_tests "$test_dir/Testing/Temporary/LastTest.log" "$test_status")
    else
        test_counts="0 0 0"
    fi
    read -r test_passed test_failed test_skipped <<END
$test_counts
END
    if [ $((test_passed + test_failed)) = 0 ]; then
        echo "No test ran." >&2
        test_failed=1
    fi
    passed=$((passed + test_passed))
    failed=$((failed + test_failed))
    skipped=$((skipped + test_skipped))
    [ "$test_failed" = 0 ]
}

# closing_line: the last line of a run.
closing_line() {
    if [ "$skipped" = 0 ]; then
        echo "$passed passed, $failed failed"
    else
        echo "$passed passed, $failed failed, $skipped skipped"
    fi
}
