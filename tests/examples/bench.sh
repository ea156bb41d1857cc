#!/bin/sh
# bench.sh ECHO_BENCH: what echo_bench promises to print and to refuse. Samples are as short as it
# allows; what the numbers are is nobody's concern here, except where they must be 0.
set -u
. "$(dirname -- "$0")/../support/claims.sh"
echo_bench=$1
export TMPDIR=.

# bench ARGUMENTS...
bench() {
    run 0 "$echo_bench" --seconds 0.02 "$@"
    has 0 err .
    for left in echo_bench-*; do
        [ ! -e "$left" ] || fail "$left is left"
    done
}

# lines_have FIELD...: every line of out is an object with these fields.
lines_have() {
    has 0 out '^($|[^{]|.*[^}]$)'
    lines=$(($(wc -l <out)))
    [ "$lines" -gt 0 ] || fail "no line"
    for field in "$@"; do
        has "$lines" out "[{,]\"$field\":(\"[a-z_-]+\"|-?[0-9.]+)[,}]"
    done
}

the_table_has_a_line_a_case() {
    bench --chars 32,1024
    number='[0-9][0-9,]*'
    rate=" *$number msg/s +[0-9.]+ MB/s"
    [ "$(wc -l <out)" -eq 6 ] || fail "$(cat out)"
    for case in 'Query           32 chars \(  101 B\)' 'QueryResult     32 chars \(   80 B\)' \
        'StreamChunk     32 chars \(   51 B\)' 'Query         1024 chars \( 1[0-9]{3} B\)' \
        'QueryResult   1024 chars \( 1[0-9]{3} B\)' 'StreamChunk   1024 chars \( 1[0-9]{3} B\)'; do
        has 1 out "^$case: issue=$rate, recv=$rate\$"
    done
}

json_has_its_fields() {
    bench throughput --chars 32 --format json
    lines_have mode type chars bytes transport codec receive pack repeat issue_rate recv_rate mb_s \
        lost
    has 3 out '^\{"mode":"throughput",.*"chars":32,.*"transport":"ipc".*"lost":0[,}]'
    for type in query query_result stream_chunk; do
        has 1 out "\"type\":\"$type\""
    done
}

csv_has_a_header_and_as_many_columns_a_line() {
    bench --chars 32 --format csv
    has 1 out '^mode,type,chars,bytes,transport,codec,receive,pack,repeat,'
    has 3 out '^throughput,'
    [ "$(sed 's/[^,]//g' out | sort -u | wc -l)" -eq 1 ] || fail "$(cat out)"
}

against_bare_adds_ratios_and_a_control() {
    bench --against bare --repeat 3 --chars 32 --types stream_chunk --format json
    has 1 out '"mode":"summary"'
    grep '"mode":"throughput"' out >rows
    mv rows out
    lines_have mode type chars lost bare_rate ratio ratio_min ratio_max control control_min
    has 1 out '"repeat":3,.*"lost":0,'
}

# CODEC
every_type_arrives_with_codec() {
    bench --codec "$1" --chars 0,128,32768 --format json
    has 9 out "\"codec\":\"$1\".*\"lost\":0[,}]"
}

# TRANSPORT
every_type_arrives_over() {
    bench --transport "$1" --chars 32 --format json
    has 3 out "\"transport\":\"$1\".*\"lost\":0[,}]"
}

each_receive_mode_has_a_row() {
    bench --receive owned,into,in-place --types query --chars 512 --format json
    [ "$(wc -l <out)" -eq 3 ] || fail "$(cat out)"
    for mode in owned into in-place; do
        has 1 out "\"receive\":\"$mode\".*\"lost\":0,\"vs_first\":"
    done
}

# TRANSPORT
packed_records_arrive_over() {
    bench --pack 4096,262144 --transport "$1" --chars 0,128,32768 --format json
    has 18 out '"codec":"typed".*"lost":0[,}]'
    has 9 out '"pack":4096,'
    has 9 out '"pack":262144,'
}

packed_against_bare_says_which_frames_are_best() {
    bench --pack 65536,524288 --against bare --repeat 2 --chars 32 --types query --format json
    has 2 out '"mode":"throughput",.*"lost":0,.*"ratio":[0-9.]+,'
    has 1 out '"mode":"best",.*"pack":[0-9]+,"ratio":[0-9.]+,"default_pack":524288,'
}

trees_are_unpacked_too() {
    bench --pack 65536 --codec msgpack --chars 32 --format json
    has 3 out '"codec":"msgpack".*"pack":65536,.*"lost":0[,}]'
}

packing_is_refused_where_it_means_nothing() {
    refuses 2 "--pack" "$echo_bench" --pack 65536 --codec raw
    refuses 2 "--pack" "$echo_bench" --pack 65536 --receive into,owned
    refuses 2 "--pack" "$echo_bench" latency --pack 65536,131072
    refuses 2 "--pack" "$echo_bench" idle --pack 65536
    refuses 2 "--pack" "$echo_bench" --pack 65536,-1
}

contenders_are_compared_in_one_run_and_drawn() {
    bench throughput --types stream_chunk --chars 32,1024 --seconds 0.05 --repeat 2 \
        --pack 0,65536 --against bare --svg picture.svg
    has 2 out 'ratio .*frames of 0$'
    has 2 out 'ratio .*frames of 65536$'
    has 1 picture.svg '^<svg .*viewBox='
    has 3 picture.svg '<polyline '
    has 1 picture.svg '>StreamChunk records received per second<'
    has 1 picture.svg '>evzmq, packed \(64 KiB frames\)<'
    has 1 picture.svg '>bare zmq_msg_recv loop<'
    has 1 picture.svg '^</svg>$'
    rm -f picture.svg
}

# Where it is not built in, it is refused, and never left out in silence.
zloop_is_compared_where_it_is_built_in() {
    if "$echo_bench" --types stream_chunk --chars 32 --seconds 0.05 --repeat 2 --format json \
        --against bare,zloop >out 2>err; then
        has 1 out '"receive":"zloop".*"ratio":'
    else
        has 1 err 'without czmq'
    fi
}

a_chart_that_cannot_be_drawn_or_written_is_an_error() {
    refuses 2 "--svg" "$echo_bench" --svg picture.svg
    refuses 2 "--svg" "$echo_bench" latency --svg picture.svg
    [ ! -e picture.svg ] || fail "there is a picture"
    refuses 1 "no-such-directory" "$echo_bench" --types query --chars 32,64 --seconds 0.02 \
        --repeat 1 --svg no-such-directory/picture.svg
}

idle_sockets_do_not_wake_up() {
    bench idle --sockets 50 --format json
    has 1 out '^\{"mode":"idle","sockets":50,.*"wakeups":0[,}]'
}

latency_runs() {
    bench latency --seconds 0.1 --repeat 2 --format json
    lines_have mode transport trips p50_us p90_us p99_us p999_us bare_p50_us ratio_p50
    has 1 out '"transport":"ipc"'
    has 1 out '"transport":"tcp"'
}

latency_is_measured_with_packing_too() {
    bench latency --pack 65536 --transport ipc --seconds 0.1 --repeat 2 --format json
    has 1 out '"transport":"ipc",.*"pack":65536,'
}

# MODE
the_codecs_alone_run() {
    bench "$1" --repeat 2 --chars 32 --format json
    has 3 out "^\\{\"mode\":\"$1\",.*\"typed_ns\":[0-9.]+,"
    has 1 out '"mode":"summary"'
}

fairness_runs() {
    bench fairness --seconds 0.1 --repeat 2 --format json
    lines_have mode timers late_p50_us late_p99_us late_max_us control_p99_us flood_ratio
}

# TRANSPORT
fan_in_counts_every_answer_over() {
    bench fan-in --repeat 2 --chars 32,1024 --transport "$1" --format json
    lines_have mode type chars bytes transport workers repeat recv_rate lost bare_rate ratio \
        ratio_min ratio_max control control_min ratio_of_control
    has 2 out "\"mode\":\"fan-in\",.*\"transport\":\"$1\",.*\"lost\":0,"
    bench fan-in --repeat 1 --chars 0
    has 1 out '^StreamChunk +0 chars .*: pool= *[0-9,]+ answers/s, bare= *[0-9,]+ msg/s, ratio '
}

what_is_not_implemented_is_refused() {
    refuses 2 "--against is for" "$echo_bench" latency --against bare
    refuses 2 "not implemented" "$echo_bench" latency --transport inproc
    refuses 2 "not implemented" "$echo_bench" fairness --transport tcp
    refuses 2 "not implemented" "$echo_bench" fan-in --transport inproc
}

bad_options_end_with_status_2() {
    refuses 2 unknown "$echo_bench" --unknown
    refuses 2 "no such choice: 'speed'" "$echo_bench" speed
    refuses 2 "more than one mode" "$echo_bench" idle latency
    refuses 2 "what is 'x'" "$echo_bench" -- x
    refuses 2 twice "$echo_bench" --types query,query
    for option in transport types codec receive against format chars seconds repeat pack sockets; do
        for value in "" nonsense -1; do
            refuses 2 "--$option" "$echo_bench" "--$option" "$value"
        done
        refuses 2 "$option" "$echo_bench" "--$option"
    done
}

help_ends_with_status_0() {
    run 0 "$echo_bench" --help
    has 1 out '^usage: echo_bench '
    has 0 err .
}

claim the_table_has_a_line_a_case
claim json_has_its_fields
claim csv_has_a_header_and_as_many_columns_a_line
claim against_bare_adds_ratios_and_a_control
for codec in raw msgpack typed; do
    claim every_type_arrives_with_codec $codec
done
for transport in ipc tcp inproc; do
    claim every_type_arrives_over $transport
    claim packed_records_arrive_over $transport
done
claim each_receive_mode_has_a_row
claim packed_against_bare_says_which_frames_are_best
claim trees_are_unpacked_too
claim packing_is_refused_where_it_means_nothing
claim contenders_are_compared_in_one_run_and_drawn
claim zloop_is_compared_where_it_is_built_in
claim a_chart_that_cannot_be_drawn_or_written_is_an_error
claim idle_sockets_do_not_wake_up
claim latency_runs
claim latency_is_measured_with_packing_too
claim the_codecs_alone_run decode
claim the_codecs_alone_run encode
claim fairness_runs
claim fan_in_counts_every_answer_over ipc
claim fan_in_counts_every_answer_over tcp
claim what_is_not_implemented_is_refused
claim bad_options_end_with_status_2
claim help_ends_with_status_0
exit $claims_failed
