#!/bin/sh
# echo.sh ECHO_SERVER ECHO_CLIENT: what the two programs promise, to each other and to their users.
# A server says on a fifo where it is, so that nobody has to wait for it or guess a port.
set -u
. "$(dirname -- "$0")/../support/claims.sh"
echo_server=$1
echo_client=$2

# serve ARGUMENTS...: sets $server, its process, and $endpoint. What it says next is at 5.
serve() {
    mkfifo said || exit 1
    $bound "$echo_server" "$@" >said 2>server_err &
    server=$!
    trap 'kill "$server" 2>/dev/null' EXIT
    exec 5<said
    read -r line <&5 || fail "the server said nothing: $(cat server_err)"
    endpoint=${line##* }
}

# end_server ANSWERS: SIGINT ends the server with status 0, and it has given so many answers.
end_server() {
    kill -INT "$server"
    read -r line <&5 || fail "the server said nothing in the end: $(cat server_err)"
    wait "$server" || fail "the server ended with status $?: $(cat server_err)"
    trap - EXIT
    [ "$line" = "echo_server: $1 answered, 0 not deliverable" ] || fail "$line"
    [ ! -s server_err ] || fail "$(cat server_err)"
}

# The arguments of a server for a kind of socket and a transport.
serve_as() {
    case $1 in
    ipc) serve_at=ipc://$PWD/echo ;;
    tcp) serve_at=tcp://127.0.0.1:* ;;
    esac
    if [ "$2" = rep ]; then
        serve --rep "$serve_at"
    else
        serve "$serve_at"
    fi
}

# TRANSPORT SERVER CLIENT-OPTION
every_message_is_echoed() {
    serve_as "$1" "$2"
    run 0 "$echo_client" --timeout 50 --count 700 --size 1000 ${3:-} "$endpoint"
    has 1 out '^echo_client: 700 echoes in [0-9.]+ s, [0-9]+ messages/s$'
    run 0 "$echo_client" --timeout 50 --count 1 --size 0 ${3:-} "$endpoint"
    run 0 "$echo_client" --timeout 50 --count 2 --size 300000 ${3:-} "$endpoint"
    end_server 703
    [ ! -e echo ] || fail "the server left its ipc file"
}

# TRANSPORT SERVER
lines_come_back_from_a_pipe_and_a_file() {
    serve_as "$1" "$2"
    printf 'one\n\n two  words \n\303\244\nno newline' >lines
    printf 'one\n\n two  words \n\303\244\nno newline\n' >wanted
    for input in pipe file; do
        if [ "$input" = pipe ]; then
            cat lines | $bound "$echo_client" --timeout 50 "$endpoint" >out 2>err
        else
            $bound "$echo_client" --timeout 50 "$endpoint" <lines >out 2>err
        fi || fail "status $?: $(cat err)"
        has 1 out '^echo_client: 5 echoes in '
        sed '$d' out >got
        cmp got wanted || fail "not the lines that were sent: $(cat got)"
    done
    run 0 "$echo_client" --timeout 50 --quiet "$endpoint" <lines
    [ "$(wc -l <out)" -eq 1 ] || fail "not quiet: $(cat out)"
    end_server 15
}

# An echo proves that the client runs and listens to signals. It is a long one because the client's
# output has a buffer.
an_interrupted_client_ends_in_order() {
    serve_as ipc router
    mkfifo to from || exit 1
    $bound "$echo_client" --timeout 40 "$endpoint" <to >from 2>err &
    client=$!
    trap 'kill "$server" "$client" 2>/dev/null' EXIT
    exec 3>to 4<from
    head -c 20000 /dev/zero | tr '\0' x >&3
    echo >&3
    [ "$(head -c 1000 <&4 | wc -c)" -eq 1000 ] || fail "no echo: $(cat err)"
    kill -INT "$client"
    line=$(tail -n 1 <&4)
    wait "$client" || fail "the client ended with status $?: $(cat err)"
    [ "${line%% in *}" = "echo_client: 1 echoes" ] || fail "$line"
    has 1 err '^echo_client: interrupted; 0 echoes had not come$'
    end_server 1
}

# The server is gone after the first line. The second one is followed by more than a pipe holds, so
# that the client must have gone past it by the time all is written.
an_interrupted_client_that_misses_echoes_ends_with_status_1() {
    serve_as ipc router
    mkfifo to from || exit 1
    $bound "$echo_client" --timeout 40 "$endpoint" <to >from 2>err &
    client=$!
    trap 'kill "$server" "$client" 2>/dev/null' EXIT
    exec 3>to 4<from
    head -c 20000 /dev/zero | tr '\0' x >&3
    echo >&3
    [ "$(head -c 1000 <&4 | wc -c)" -eq 1000 ] || fail "no echo: $(cat err)"
    end_server 1
    trap 'kill "$client" 2>/dev/null' EXIT
    echo second >&3
    head -c 300000 /dev/zero | tr '\0' x >&3
    kill -INT "$client"
    line=$(tail -n 1 <&4)
    wait "$client"
    status=$?
    [ "$status" = 1 ] || fail "status $status: $(cat err)"
    [ "${line%% in *}" = "echo_client: 1 echoes" ] || fail "$line"
    has 1 err '^echo_client: interrupted; 1 echoes had not come$'
}

echoes_that_cannot_be_printed_are_status_1() {
    [ -c /dev/full ] || return 0
    serve_as ipc router
    echo line | $bound "$echo_client" --timeout 50 "$endpoint" >/dev/full 2>err
    status=$?
    [ "$status" = 1 ] || fail "status $status: $(cat err)"
    has 1 err '^echo_client: cannot print: '
    end_server 1
}

a_client_without_a_server_gives_up() {
    run 1 "$echo_client" --count 3 --timeout 1 "ipc://$PWD/nobody"
    has 1 err "^echo_client: no echo from ipc://.*/nobody for 1 s\$"
    has 1 err '^echo_client: gave up after 0 of 3 echoes$'
    has 0 out .
}

a_second_server_leaves_the_first_alone() {
    serve_as ipc router
    refuses 1 "another server listens" "$echo_server" "$endpoint"
    run 0 "$echo_client" --timeout 50 --count 5 "$endpoint"
    end_server 5
}

a_file_that_is_no_socket_is_left_alone() {
    echo "text" >file
    refuses 1 "is no socket" "$echo_server" "ipc://$PWD/file"
    [ "$(cat file)" = "text" ] || fail "the file is not what it was"
}

bad_options_end_with_status_2() {
    for program in "$echo_server" "$echo_client"; do
        refuses 2 unknown "$program" --unknown
        refuses 2 "one endpoint" "$program" "ipc://$PWD/a" "ipc://$PWD/b"
    done
    for option in count size window timeout; do
        for value in "" x -1 1x 99999999999999999999; do
            refuses 2 "--$option" "$echo_client" "--$option" "$value"
        done
        refuses 2 "$option" "$echo_client" "--$option"
    done
    refuses 2 "--count" "$echo_client" --count 0
}

bad_endpoints_end_with_status_1() {
    refuses 1 "nonsense" "$echo_server" nonsense
    refuses 1 "nonsense" "$echo_client" nonsense
    refuses 1 "cannot bind" "$echo_server" "ipc://$PWD/missing/echo"
}

help_ends_with_status_0() {
    for program in "$echo_server" "$echo_client"; do
        run 0 "$program" --help
        has 1 out "^usage: ${program##*/} "
        has 0 err .
    done
}

for transport in ipc tcp; do
    for kind in router rep; do
        claim every_message_is_echoed $transport $kind
        claim lines_come_back_from_a_pipe_and_a_file $transport $kind
    done
    claim every_message_is_echoed $transport router --req
done
claim an_interrupted_client_ends_in_order
claim an_interrupted_client_that_misses_echoes_ends_with_status_1
claim echoes_that_cannot_be_printed_are_status_1
claim a_client_without_a_server_gives_up
claim a_second_server_leaves_the_first_alone
claim a_file_that_is_no_socket_is_left_alone
claim bad_options_end_with_status_2
claim bad_endpoints_end_with_status_1
claim help_ends_with_status_0
exit $claims_failed
