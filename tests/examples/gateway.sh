#!/bin/sh
# gateway.sh HTTP_GATEWAY BAD_WORKER: its page in a browser that shows nothing to anybody.
set -u
. "$(dirname -- "$0")/../support/claims.sh"
http_gateway=$1
bad_worker=$2

browser=
for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null 2>&1; then
        browser=$name
        break
    fi
done

# serve ARGUMENTS...: sets $server, its process, and $url.
serve() {
    mkfifo said || exit 1
    $bound "$http_gateway" --port 0 "$@" >said 2>server_err &
    server=$!
    trap 'kill "$server" 2>/dev/null' EXIT
    exec 5<said
    read -r line <&5 || fail "the server said nothing: $(cat server_err)"
    url=${line##* }
}

end_server() {
    kill -TERM "$server"
    wait "$server" || fail "the server ended with status $?: $(cat server_err)"
    trap - EXIT
}

# browse QUERY: the page is in the file page after it has done what it does when it is loaded. The
# time is the page's own, which stands still until an answer begins, but not while a stream goes on:
# on a busy machine the page may be seen before it has all of it, and is asked for again.
browse() {
    for attempt in 1 2 3 4 5 6 7 8 9 10; do
        load "$1"
        grep -q '<p id="state">waiting</p>' page || return 0
    done
    fail "the page did not come to an end, $attempt times: $(cat page)"
}

# Root cannot have the sandbox.
load() {
    sandbox=
    [ "$(id -u)" != 0 ] || sandbox=--no-sandbox
    HOME=$PWD $bound "$browser" --headless $sandbox --disable-gpu --disable-dev-shm-usage \
        --no-first-run --disable-background-networking --disable-component-update --disable-sync \
        --disable-quic "--user-data-dir=$PWD/profile" --virtual-time-budget=20000 \
        --dump-dom "$url$1" \
        >page 2>browser_err || fail "the browser ended with status $?: $(tail -n 5 browser_err)"
}

the_page_sends_a_prompt_and_shows_the_stream() {
    serve --workers 2
    browse "?prompt=alpha%20%22beta%22%20%3Cb%3E"
    has 1 page '<div id="answer"[^>]*>&lt;b&gt; "beta" alpha</div>'
    has 1 page '<p id="state">done: 3 words, 3 different, by worker [01]</p>'
    end_server
}

the_page_waits_for_its_user_without_a_prompt() {
    serve --direct
    browse ""
    has 1 page '<div id="answer"[^>]*></div>'
    has 1 page '<p id="state">ready</p>'
    end_server
}

the_page_says_when_an_answer_fails() {
    serve --worker "$bad_worker" --timeout 1
    browse "?prompt=mute"
    has 1 page '<p id="state">failed: no answer came in time</p>'
    end_server
}

if [ -z "$browser" ]; then
    for name in the_page_sends_a_prompt_and_shows_the_stream \
        the_page_waits_for_its_user_without_a_prompt the_page_says_when_an_answer_fails; do
        echo "[ RUN      ] $name"
        echo "  needs Chromium, which is not installed: sh cmake/deps.sh browser"
        echo "[  SKIPPED ] $name"
    done
    exit 0
fi
claim the_page_sends_a_prompt_and_shows_the_stream
claim the_page_waits_for_its_user_without_a_prompt
claim the_page_says_when_an_answer_fails
exit $claims_failed
