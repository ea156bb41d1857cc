#!/bin/sh
# Checks that the files of plugin/ depend only downwards, and that the public headers stay as light
# as they promise:
#
#   - a file includes only files of its own layer and of lower ones (table below);
#   - the codecs, layer 4, see neither sockets nor events, although they stand above them;
#   - only loop.c calls event_*, evtimer_* and the like;
#   - nothing calls what the library does without: event_active() and event_base_once(), which starve
#     timers, event_base_get_running_event(), which may crash, msgpack_unpacker_* and
#     msgpack_object_print*, which are not for what peers send, and whatever prints, exits or reads
#     the environment;
#   - what is marked pure knows neither libevent nor libzmq;
#   - only evzmq/msgpack.h includes <msgpack.h>, and no public header includes <zmq.h>;
#   - examples and behaviour tests include nothing of plugin/.
#
# A file of plugin/ without a layer is an error, and so is a layer without a file.
set -u

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd) || exit 1
cd "$root" || exit 1

# name        layer  (pure)
layers='
arena         0
base          0
errortext     0
heap          0  pure
table         0
utf8          0
wake          0
codec         1
descriptors   1  pure
drain         1  pure
envelope      1
frame         1  pure
ipcdir        1  pure
ipcpath       1  pure
message       1
message_recv  1
parts         1
queue         1  pure
context       2
endpoint      2
loop          2
registry      2
attach        3
ending        3
evbuffer      3
feed          3
input         3
options       3
output        3
packing       3
receive       3
socket        3
unpack        3
write         3
msgpack       4
scan          4
cursor        4
records       4
batch         4
prefixes      4
pubframe      4
schema        4
schema_check  4
schema_decode 4
schema_encode 4
schema_number 4
schema_run    4
schema_size   4
schema_span   4
wire          4
monitor       5
monitor_events 5
monitor_names 5
monitor_peers 5
poster        5
poster_loop   5
headed        6
link          6
pool          6
pool_end      6
pool_recv     6
pool_send     6
pool_workers  6
process       6
publisher     6
publisher_send 6
ready         6
request       6
request_recv  6
request_send  6
subscriber    6
subscriber_deliver 6
subscriber_latest 6
worker        6
worker_join   6
'

set -- include/evzmq/*.h
for file in plugin/*.[ch] examples/*.[ch] tests/behaviour/*.[ch]; do
    [ -f "$file" ] && set -- "$@" "$file"
done

printf '%s' "$layers" | awk '
    # Blanks out comments and strings, except the name in an #include line.
    function code(line,    out, i, two, c, quote) {
        out = ""
        for (i = 1; i <= length(line); i++) {
            two = substr(line, i, 2)
            c = substr(line, i, 1)
            if (comment) {
                if (two == "*/") {
                    comment = 0
                    i++
                }
            } else if (two == "/*") {
                comment = 1
                i++
            } else if (two == "//") {
                break
            } else if (quote) {
                if (c == "\\") {
                    i++
                } else if (c == quote) {
                    quote = ""
                }
            } else if ((c == "\"" || c == "\047") && line !~ /^[ \t]*#[ \t]*include/) {
                quote = c
            } else {
                out = out c
            }
        }
        return out
    }
    function bad(text) {
        printf "%s:%d: %s\n", FILENAME, FNR, text
        faults++
    }
    function quoted(name) {
        sub(/^[^"]*"/, "", name)
        sub(/".*/, "", name)
        return name
    }
    function angled(name) {
        sub(/^[^<]*</, "", name)
        sub(/>.*/, "", name)
        return name
    }
    function includes_own(name,    stem) {
        stem = name
        sub(/\.h$/, "", stem)
        if (!(stem in layer)) {
            bad("\"" name "\" has no layer")
        } else if (layer[stem] > layer[me]) {
            bad("layer " layer[me] " includes \"" name "\" of layer " layer[stem])
        } else if (layer[me] == 4 && (layer[stem] == 2 || layer[stem] == 3)) {
            bad("a codec includes \"" name "\", which sees sockets or events")
        }
    }
    function includes_other(name) {
        if ((me in pure || layer[me] == 4) &&
            name ~ /^(zmq\.h|event\.h|event2\/.*|evzmq\/socket\.h|evzmq\/evzmq\.h)$/) {
            bad("it must know neither libzmq nor libevent, but includes <" name ">")
        }
    }
    function calls(text) {
        if (me != "loop" && text ~ /(^|[^a-z0-9_.>])(event|evtimer|evsignal)_[a-z_0-9]+[ \t]*\(/) {
            bad("only loop.c calls event_* functions")
        }
        if ((me in pure || layer[me] == 4) && text ~ /(^|[^a-z0-9_])zmq_[a-z_0-9]+[ \t]*\(/) {
            bad("it must not call libzmq")
        }
    }

    function calls_nothing_banned(text,    name) {
        if (match(text, /(^|[^a-z0-9_])(event_active|event_base_once|event_base_get_running_event|msgpack_unpacker[a-z_]*|msgpack_object_print[a-z_]*|v?f?printf|v?dprintf|f?puts|f?putc|putchar|perror|syslog|_?exit|abort|(secure_)?getenv|setenv)[ \t]*\(/)) {
            name = substr(text, RSTART, RLENGTH)
            gsub(/[^a-z_]/, "", name)
            bad("the library never calls " name "()")
        }
    }

    FILENAME == "-" {
        if (NF) {
            layer[$1] = $2
            if ($3 == "pure") {
                pure[$1] = 1
            }
        }
        next
    }
    FNR == 1 {
        comment = 0
        place = FILENAME
        sub(/[^\/]*$/, "", place)
        me = FILENAME
        sub(/.*\//, "", me)
        header = me
        sub(/\.[ch]$/, "", me)
        files++
        if (place == "plugin/") {
            seen[me] = 1
            if (!(me in layer)) {
                bad("it has no layer: add it to the table in cmake/check-layers.sh")
            }
        }
    }
    {
        text = code($0)
        include = text ~ /^[ \t]*#[ \t]*include/
    }
    place == "plugin/" && me in layer {
        if (include && text ~ /"/) {
            includes_own(quoted(text))
        } else if (include) {
            includes_other(angled(text))
        } else {
            calls(text)
            calls_nothing_banned(text)
        }
    }
    place == "include/evzmq/" && include {
        if (angled(text) == "zmq.h") {
            bad("a public header includes <zmq.h>")
        }
        if (angled(text) ~ /^msgpack/ && header != "msgpack.h") {
            bad("only evzmq/msgpack.h includes <msgpack.h>")
        }
        if (text ~ /"/) {
            bad("a public header includes with quotes: installed, it would not find the file")
        }
    }
    (place == "examples/" || place == "tests/behaviour/") && include && text ~ /plugin\// {
        bad("it includes a file of plugin/")
    }
    END {
        for (name in layer) {
            if (!(name in seen)) {
                printf "cmake/check-layers.sh: %s has a layer and no file\n", name
                faults++
            }
        }
        printf "%d files looked at, %d faults\n", files, faults
        exit faults > 0
    }' - "$@"
