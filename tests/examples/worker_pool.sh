#!/bin/sh
# worker_pool.sh WORKER_POOL: what the example promises to whoever runs it.
set -u
. "$(dirname -- "$0")/../support/claims.sh"
worker_pool=$1

# A worker's line of the table: worker, sent, answered, unanswered, restarts.
row='^ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+$'

# PROMPTS WORKERS: the last lines of out are the table.
has_table() {
    has 1 out "^$1 prompts, $1 answered\$"
    tail -n $(($2 + 1)) out >table
    has "$2" table "$row"
}

each_line_is_counted_from() {
    printf 'one two two\n\n  three  \nno newline' >prompts
    if [ "$1" = file ]; then
        run 0 "$worker_pool" --workers 3 prompts
    else
        cat prompts | run 0 "$worker_pool" --workers 3 $2
    fi
    has 0 err .
    has_table 4 3
    has 1 out '^ +1 +3 +2 +11  one$'
    has 1 out '^ +2 +0 +0 +0  $'
    has 1 out '^ +3 +1 +1 +9  three$'
    has 1 out '^ +4 +2 +2 +10  newline$'
}

no_prompt_is_a_table_of_nothing() {
    run 0 "$worker_pool" --workers 2 /dev/null
    has_table 0 2
}

many_prompts_are_all_answered_and_quiet_prints_the_table_only() {
    seq 1 3000 >prompts
    run 0 "$worker_pool" prompts
    has_table 3000 4
    sed -n '1,3000s/^ *\([0-9]*\) .*/\1/p' out | sort -n | cmp - prompts || fail "a prompt twice"
    run 0 "$worker_pool" --quiet prompts
    has_table 3000 4
    [ "$(wc -l <out)" -eq 7 ] || fail "not quiet: $(cat out)"
}

two_at_once_do_not_disturb_each_other() {
    seq 1 5000 >one
    seq 1 7000 >other
    $bound "$worker_pool" --quiet --workers 3 one >one.out 2>one.err &
    first=$!
    run 0 "$worker_pool" --quiet --workers 2 other
    has 0 err .
    has_table 7000 2
    wait "$first" || fail "status $? of the one beside: $(cat one.err)"
    [ ! -s one.err ] || fail "$(cat one.err)"
    mv one.out out
    has_table 5000 3
}

# start: a worker_pool with prompts from descriptor 3 and its lines at 4; all workers have answered
# before it returns.
start() {
    mkfifo to from || exit 1
    $bound "$worker_pool" --workers 2 <to >from 2>err &
    pool=$!
    trap 'kill "$pool" 2>/dev/null' EXIT
    exec 3>to 4<from
}

a_signal_ends_it_in_order() {
    start
    head -c 20000 /dev/zero | tr '\0' '\n' >&3 # Its output has a buffer.
    read -r line <&4 || fail "no answer: $(cat err)"
    kill -"$1" "$pool"
    cat <&4 >out
    wait "$pool" || fail "status $?: $(cat err)"
    trap - EXIT
    has 0 err .
    has 2 out "$row"
    sent=$(sed -n 's/^\([0-9]*\) prompts, .*/\1/p' out)
    has 1 out "^$sent prompts, $sent answered\$"
}

# The children of a process, where the system tells.
children_of() {
    cat "/proc/$1/task/$1/children" 2>/dev/null
}

a_killed_worker_is_told_and_another_takes_its_place() {
    start
    head -c 20000 /dev/zero | tr '\0' '\n' >&3
    read -r line <&4 || fail "no answer: $(cat err)"
    main=$pool
    [ -z "$bound" ] || main=$(children_of "$pool")
    set -- $(children_of ${main:-0})
    [ $# -gt 0 ] || return 0
    kill -KILL "$1"
    # Prompts go on until the loss was seen; output is read meanwhile, so that nothing waits.
    cat <&4 >out 3>&- &
    until grep -q lost err; do
        echo prompt >&3
    done
    exec 3>&-
    wait "$pool"
    status=$?
    trap - EXIT
    wait
    has 1 err '^worker_pool: worker [01] lost \(killed, status 9\): [0-9]+ prompts unanswered; '
    has 1 out '^ +[01] +[0-9]+ +[0-9]+ +[0-9]+ +1$'
    unanswered=$(sed -n 's/.*: \([0-9]*\) prompts unanswered.*/\1/p' err)
    [ "$status" = $((unanswered > 0)) ] || fail "status $status, $unanswered unanswered"
}

bad_options_end_with_status_2() {
    for value in 0 -1 x 4097 1x ""; do
        refuses 2 "--workers takes a number" "$worker_pool" --workers "$value"
    done
    refuses 2 "one file, not 2" "$worker_pool" a b
    refuses 2 unknown "$worker_pool" --unknown
    refuses 2 workers "$worker_pool" --workers
}

what_cannot_be_read_or_started_is_status_1() {
    refuses 1 nowhere "$worker_pool" nowhere
    refuses 1 'directory' "$worker_pool" .
    (ulimit -n 64 && refuses 1 'ulimit -n' "$worker_pool" --workers 64 /dev/null) || exit 1
}

what_cannot_be_printed_is_status_1() {
    [ -c /dev/full ] || return 0
    for option in --help --quiet; do
        $bound "$worker_pool" $option </dev/null >/dev/full 2>err
        status=$?
        [ "$status" = 1 ] || fail "status $status with $option: $(cat err)"
        has 1 err '^worker_pool: cannot print: '
    done
}

help_ends_with_status_0() {
    run 0 "$worker_pool" --help
    has 1 out '^usage: worker_pool '
    has 0 err .
}

claim each_line_is_counted_from file
claim each_line_is_counted_from a_pipe ""
claim each_line_is_counted_from a_pipe_over_tcp --tcp
claim no_prompt_is_a_table_of_nothing
claim many_prompts_are_all_answered_and_quiet_prints_the_table_only
claim two_at_once_do_not_disturb_each_other
claim a_signal_ends_it_in_order INT
claim a_signal_ends_it_in_order TERM
claim a_killed_worker_is_told_and_another_takes_its_place
claim bad_options_end_with_status_2
claim what_cannot_be_read_or_started_is_status_1
claim what_cannot_be_printed_is_status_1
claim help_ends_with_status_0
exit $claims_failed
