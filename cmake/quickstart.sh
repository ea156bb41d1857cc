#!/bin/sh
# Installs what is missing, builds evzmq and runs the benchmark, which gets the arguments:
#
#   sh cmake/quickstart.sh [echo_bench's arguments]
set -u
. "$(dirname -- "$0")/common.sh"

# The benchmark's output may be read by a program: what is said before it goes to stderr.
if ! sh "$root/cmake/deps.sh" build >&2; then
    exit 1
fi
if ! build build-release echo_bench -DCMAKE_BUILD_TYPE=Release -DEVZMQ_BUILD_TESTS=OFF \
    -DEVZMQ_BUILD_EXAMPLES=ON >&2; then
    echo "The build failed." >&2
    exit 1
fi
exec "$root/build-release/examples/echo_bench" "$@"
