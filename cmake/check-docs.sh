#!/bin/sh
# Checks that the pages for people say what the headers and the code say:
#
#   sh cmake/check-docs.sh [LIBRARY]
#
#   - the guide's table of threads and callbacks is what the headers say of each function, and names
#     each function that LIBRARY, the shared one, exports, and no other;
#   - the guide's table of limits has each number of the public headers, and they are true;
#   - functions and constants that the guide and README.md name are in the public headers, and the
#     pages they link to are there;
#   - files, functions and fields that plugin/README.md names are in plugin/, each function in the
#     file that it names, each file in the table of layers, and each check in that of checks.
set -u
LC_ALL=C
export LC_ALL

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd) || exit 1
library=${1:+$(CDPATH='' cd -- "$(dirname -- "$1")" && pwd)/$(basename -- "$1")}
cd "$root" || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
guide=examples/guide
status=0

fail() {
    echo "$*"
    status=1
}

# same WHAT LEFT RIGHT MEANING: the two files of $work are equal, and not empty.
same() {
    [ -s "$work/$2" ] || fail "$1: nothing was found"
    diff "$work/$2" "$work/$3" || fail "$1: $4"
}

check_threads() {
    awk -f cmake/threads.awk include/evzmq/*.h | sort >"$work/said"
    grep '^| evzmq_' $guide/threads.md | sort >"$work/tabled"
    same "$guide/threads.md" said tabled "marked < : what the headers say; marked > : what it says"
    if grep -E '\|  \|' "$work/said"; then
        fail "Of these no header says which thread may call them, or whether callbacks may."
    fi
    if [ -n "$library" ]; then
        nm -D --defined-only "$library" | awk '$2 == "T" { print $3 }' | sort >"$work/exported"
        sed 's/^| //; s/().*//' "$work/tabled" >"$work/named"
        same "$guide/threads.md" exported named "marked < : exported; marked > : named and not exported"
    fi
}

# Numbers that are no limits are named here.
check_limits() {
    sed -nE 's/^#define (EVZMQ_[A-Z0-9_]+) \(?[0-9].*/\1/p' include/evzmq/*.h |
        grep -vE '^EVZMQ_(VERSION_.*|REQUIRED|NILABLE|NILABLE_MEMBER|MONITOR_ALL)$' | sort -u \
        >"$work/defined"
    awk -F ' *\\| *' '$4 ~ /^`EVZMQ_[A-Z]/ { gsub(/`/, "", $4); print $4 }' $guide/limits.md | sort \
        >"$work/tabled"
    grep '^EVZMQ_[A-Z]' "$work/tabled" | grep -v '^EVZMQ__' >"$work/public"
    same "$guide/limits.md" defined public "marked < : in the headers; marked > : in the table, or twice"
    awk -f cmake/limits.awk $guide/limits.md >"$work/limits.c"
    flags=$(pkg-config --cflags libevent_core libzmq "$(pkg-config --exists msgpack-c &&
        echo msgpack-c || echo msgpack)")
    # shellcheck disable=SC2086  # The flags are words.
    cc -std=c11 -fsyntax-only -I include -I plugin $flags "$work/limits.c" ||
        fail "$guide/limits.md: a number is not what the code has."
}

# words FILE PATTERN: the words of a file that match, one a line.
words() {
    grep -oE "$2" "$1" | sort -u
}

check_names() {
    cat include/evzmq/*.h >"$work/headers"
    for page in README.md $guide/*.md; do
        for name in $(words "$page" '\bevzmq_[a-z0-9_]+\(' | tr -d '('); do
            grep -qw -- "$name" "$work/headers" || fail "$page names $name(), which is in no header."
        done
        for name in $(words "$page" '\bEVZMQ_[A-Z][A-Z0-9_]*\b'); do
            case $name in
            EVZMQ_BUILD_*) grep -qw -- "$name" CMakeLists.txt ;;
            *) grep -qw -- "$name" "$work/headers" ;;
            esac || fail "$page names $name, which is in no header."
        done
        for link in $(grep -oE '\]\([^)#: ]+\)' "$page" | sed 's/^](//; s/)$//' | sort -u); do
            [ -e "$(dirname -- "$page")/$link" ] || fail "$page links to $link, which is not there."
        done
    done
}

# Rows of the data flow are "what it does   file.c   function, function".
check_plugin() {
    page=plugin/README.md
    cat plugin/*.[ch] >"$work/plugin"
    for name in $(words $page '\b[A-Za-z0-9_./-]+\.(c|h|md|sh|txt)\b'); do
        [ -e "plugin/$name" ] || [ -e "include/evzmq/$name" ] || [ -e "include/$name" ] ||
            [ -e "examples/guide/$name" ] || [ -e "$name" ] ||
            fail "$page names $name, which is not there."
    done
    for name in $(words $page '\bevzmq_[a-z0-9_]*[a-z0-9]\b') \
        $(words $page '\bEVZMQ_[A-Z0-9_]*[A-Z0-9]\b'); do
        grep -q -- "$name" "$work/plugin" include/evzmq/*.h CMakeLists.txt cmake/*.cmake ||
            fail "$page names $name, which is nowhere."
    done
    # In backticks: words of the code.
    for name in $(grep -oE '`[a-z_][a-z0-9_]*(\(\))?`' $page | tr -d '`()' | sort -u); do
        grep -qw -- "$name" "$work/plugin" include/evzmq/*.h .ci/run ||
            fail "$page names $name, which is nowhere."
    done
    flow=0
    while read -r file functions; do
        for function in $(echo "$functions" | tr -d ','); do
            flow=$((flow + 1))
            grep -qE "^([a-z].*[ *])?$function\(" "plugin/$file" 2>/dev/null ||
                fail "$page: $function is not in $file."
        done
    done <<END
$(sed -nE 's/^    .*  +([a-z_]+\.[ch])  +([a-z0-9_, ]+)$/\1 \2/p' $page)
END
    [ "$flow" -gt 30 ] || fail "$page: only $flow functions were found in its data flow."
    # The table of layers: names outside parentheses; schema* is every file that begins so.
    sed -nE 's/^\| L[0-9] \| ([^|]*) \|.*/\1/p' $page | sed -E 's/\([^)]*\)//g' | tr ',' '\n' |
        sed 's/ and /\n/g' | tr -d ' ' | grep . >"$work/layers"
    while read -r name; do
        # shellcheck disable=SC2086  # The star is meant.
        ls plugin/$name.[ch] >/dev/null 2>&1 || fail "$page: there is no plugin/$name."
    done <"$work/layers"
    for file in plugin/*.c; do
        stem=$(basename "$file" .c)
        while read -r name; do
            # shellcheck disable=SC2254  # The star is meant.
            case $stem in $name) continue 2 ;; esac
        done <"$work/layers"
        fail "$page: $file is in no layer."
    done
    bash .ci/run list | sort >"$work/checks"
    sed -nE 's/^\| `([a-z-]+)` \|.*/\1/p' $page | sort >"$work/tabled"
    same $page checks tabled "marked < : .ci/run has it; marked > : the table has it"
}

check_threads
check_limits
check_names
check_plugin
[ $status = 0 ] && echo "The guide, README.md and plugin/README.md say what the code says."
exit $status
