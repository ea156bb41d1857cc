#!/bin/sh
# pubsub.sh PUBSUB: what the program promises.
# The publisher says on a fifo where it is, so that nobody has to wait for it or guess a port.
set -u
. "$(dirname -- "$0")/../support/claims.sh"
pubsub=$1

# publish COUNT: sets $publisher, its process, and $endpoint.
publish() {
    mkfifo said || exit 1
    $bound "$pubsub" publish "tcp://127.0.0.1:*" "$1" >said 2>publisher_err &
    publisher=$!
    trap 'kill "$publisher" 2>/dev/null' EXIT
    exec 5<said
    read -r line <&5 || fail "the publisher said nothing: $(cat publisher_err)"
    endpoint=${line##* }
}

end_publisher() {
    wait "$publisher" || fail "the publisher ended with status $?: $(cat publisher_err)"
    trap - EXIT
    [ ! -s publisher_err ] || fail "$(cat publisher_err)"
}

# More than is looked at, so that nothing depends on how libzmq ends a connection.
readings_arrive_in_the_order_of_each_sensor() {
    publish 30000
    run 0 "$pubsub" subscribe "$endpoint" 20000
    [ ! -s err ] || fail "$(cat err)"
    for sensor in 0 1 2; do
        grep "^sensor.$sensor " out | cut -d ' ' -f 2 >got
        awk -v n="$(wc -l <got)" -v s=$sensor 'BEGIN { for (i = 0; i < n; i++) print 3 * i + s }' \
            >wanted
        [ -s got ] || fail "nothing of sensor $sensor"
        cmp -s got wanted || fail "sensor $sensor: $(diff got wanted | head -n 5)"
    done
    end_publisher
}

a_prefix_selects_its_topics() {
    publish 9000
    run 0 "$pubsub" subscribe "$endpoint" 2000 sensor.1
    has 2000 out '^sensor\.1 [0-9]+$'
    end_publisher
}

bad_arguments_end_with_status_2() {
    run 2 "$pubsub"
    run 2 "$pubsub" publish "tcp://127.0.0.1:*" 0
    run 2 "$pubsub" publish "tcp://127.0.0.1:*" 3x
    run 2 "$pubsub" shout "tcp://127.0.0.1:*" 3
}

bad_endpoints_end_with_status_1() {
    refuses 1 "nothing://here" "$pubsub" publish nothing://here 3
    refuses 1 "nothing://here" "$pubsub" subscribe nothing://here 3
}

claim readings_arrive_in_the_order_of_each_sensor
claim a_prefix_selects_its_topics
claim bad_arguments_end_with_status_2
claim bad_endpoints_end_with_status_1
exit $claims_failed
