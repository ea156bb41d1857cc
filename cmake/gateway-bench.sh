#!/bin/sh
# Measures the HTTP gateway with wrk: with its workers behind it, and answering in the process
# itself without ZeroMQ. Both run all the time and are measured in turns (A B B A ...), so that what
# else the machine does hits both alike; what counts is the ratio of the medians.
#
#   sh cmake/gateway-bench.sh [ROUNDS [SECONDS]]     default 9 rounds of 2 s each
#
# Needs wrk (a package of that name). CONNECTIONS and WORKERS in the environment: 64, and one for
# each core. The control is the same comparison of the direct server's odd samples with its even
# ones: a ratio away from 1 there says how much is noise.
set -u
. "$(dirname -- "$0")/common.sh"
rounds=${1:-9}
seconds=${2:-2}
connections=${CONNECTIONS:-64}

if ! command -v wrk >/dev/null 2>&1; then
    echo "This needs wrk: install the package of that name." >&2
    exit 1
fi
sh "$root/cmake/deps.sh" test || exit 1
log=$root/build-gateway.log
if ! build build-gateway http_gateway -DCMAKE_BUILD_TYPE=Release -DEVZMQ_BUILD_TESTS=OFF \
    -DEVZMQ_BUILD_EXAMPLES=ON >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi
rm -f "$log"
gateway=$root/build-gateway/examples/http_gateway

scratch=$(mktemp -d) || exit 1
pids=
trap 'kill $pids 2>/dev/null; rm -rf "$scratch"' EXIT
cat >"$scratch/post.lua" <<'END'
wrk.method = "POST"
wrk.body = '{"prompt": "the quick brown fox jumps over the lazy dog"}'
wrk.headers["Content-Type"] = "application/json"
END

# serve NAME ARGUMENTS...: its URL is in the file NAME.
serve() {
    serve_name=$1
    shift
    mkfifo "$scratch/said"
    "$gateway" --port 0 "$@" >"$scratch/said" &
    pids="$pids $!"
    read -r line <"$scratch/said" || exit 1
    rm "$scratch/said"
    echo "${line##* }" >"$scratch/$serve_name"
}

# measure NAME: one sample, requests a second. An answer other than 200 spoils it.
measure() {
    wrk -t 1 -c "$connections" -d "$seconds" -s "$scratch/post.lua" \
        "$(cat "$scratch/$1")v1/completions" >"$scratch/out" || exit 1
    if grep -q -E 'Non-2xx|Socket errors' "$scratch/out"; then
        cat "$scratch/out" >&2
        exit 1
    fi
    awk '/^Requests\/sec:/ { print $2 }' "$scratch/out" >>"$scratch/$1.samples"
}

# median [PARITY]: of the numbers on standard input, or of every other one of them.
median() {
    awk -v parity="${1:-}" 'parity == "" || NR % 2 == parity' | sort -n |
        awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

serve workers ${WORKERS:+--workers "$WORKERS"}
serve direct --direct
seconds_wanted=$seconds
seconds=1
measure workers && measure direct && rm -f "$scratch"/*.samples # to warm up
seconds=$seconds_wanted
round=0
while [ "$round" -lt "$rounds" ]; do
    if [ $((round % 2)) = 0 ]; then
        measure workers && measure direct
    else
        measure direct && measure workers
    fi
    round=$((round + 1))
done

workers=$(median <"$scratch/workers.samples")
direct=$(median <"$scratch/direct.samples")
odd=$(median 1 <"$scratch/direct.samples")
even=$(median 0 <"$scratch/direct.samples")
awk -v w="$workers" -v d="$direct" -v o="$odd" -v e="$even" -v c="$connections" -v r="$rounds" 'BEGIN {
    printf "%d connections, medians of %d\n", c, r
    printf "  with workers  %8.0f requests/s\n  direct        %8.0f requests/s\n", w, d
    printf "  ratio         %8.2f\n", w / d
    if (r > 1) {
        printf "  control       %8.2f\n", o / e
    }
}'
