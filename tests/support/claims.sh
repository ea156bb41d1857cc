# What the tests of the example programs share; sourced by them, never run. A claim is a function
# that runs in a subshell and a directory of its own. The lines it prints are cmocka's, so that
# whoever counts tests counts claims too.

# Nothing here takes so long; it is for what hangs. In the foreground mode a signal for a program
# that runs under timeout reaches it once, not twice.
bound=
if timeout --foreground 1 true 2>/dev/null; then
    bound="timeout --foreground 60"
fi

claims_failed=0

# fail WORDS...: ends the claim.
fail() {
    echo "  $*" >&2
    exit 1
}

# claim FUNCTION ARGUMENTS...
claim() {
    claim_name=$(echo "$*" | tr ' -' '__')
    echo "[ RUN      ] $claim_name"
    # A short path: that of an ipc socket may have no more than 100 bytes or so. Not evzmq-XXXXXX:
    # those are the library's own, and any of its contexts clears away an empty one.
    claim_dir=$(mktemp -d "/tmp/evzmq-claim-XXXXXX") || exit 1
    if (cd "$claim_dir" && "$@"); then
        echo "[       OK ] $claim_name"
    else
        echo "[  FAILED  ] $claim_name"
        claims_failed=1
    fi
    rm -rf "$claim_dir"
}

# run STATUS COMMAND...: the command's output is in the files out and err afterwards.
run() {
    run_wanted=$1
    shift
    $bound "$@" >out 2>err
    run_status=$?
    [ "$run_status" = "$run_wanted" ] ||
        fail "status $run_status, not $run_wanted: $* : $(head -c 2000 err)"
}

# refuses STATUS WORD COMMAND...: it prints one line, with the word, to stderr and nothing else.
refuses() {
    refuses_status=$1
    refuses_word=$2
    shift 2
    run "$refuses_status" "$@"
    [ "$(wc -l <err)" -eq 1 ] || fail "not one line: $* : $(cat err)"
    grep -q -- "$refuses_word" err || fail "no word of $refuses_word: $* : $(cat err)"
    [ ! -s out ] || fail "output: $* : $(cat out)"
}

# has LINES FILE REGEX: so many lines of the file match.
has() {
    has_count=$(grep -Ec -- "$3" "$2")
    [ "$has_count" = "$1" ] || fail "$has_count lines, not $1, match $3: $(cat "$2")"
}
