# What the public headers say of each exported function, as rows of a table of the guide:
#
#   awk -f cmake/threads.awk include/evzmq/*.h
#
# prints "| name() | thread | callbacks |". A function that says nothing itself has what the top of
# its file says of all of them; a cell stays empty where that says nothing either.

# value(TEXT, KEY): what stands behind the key, up to the full stop.
function value(text, key) {
    if (!match(text, key ": [^.]*[.]")) {
        return ""
    }
    return substr(text, RSTART + length(key) + 2, RLENGTH - length(key) - 3)
}

FNR == 1 {
    comment = declaration = file_comment = ""
    in_comment = 0
}
/^\/\*\*/ { in_comment = 1; comment = "" }
in_comment {
    line = $0
    sub(/^ *\/?\*+\/? ?/, "", line)
    sub(/ *\*\/$/, "", line)
    comment = comment " " line
    if (/\*\/$/) {
        in_comment = 0
        gsub(/ +/, " ", comment)
        if (comment ~ /@file/) {
            file_comment = comment
        }
    }
    next
}
/^EVZMQ_API / { declaration = " " }
declaration != "" {
    declaration = declaration " " $0
    if (/[;(]/) {
        if (match(declaration, /evzmq_[a-z0-9_]+\(/)) {
            name = substr(declaration, RSTART, RLENGTH - 1)
            thread = value(comment, "Thread")
            callbacks = value(comment, "Callbacks")
            if (thread == "") {
                thread = value(file_comment, "Thread")
            }
            if (callbacks == "") {
                callbacks = value(file_comment, "Callbacks")
            }
            printf "| %s() | %s | %s |\n", name, thread, callbacks
        }
        declaration = ""
        comment = ""
    }
}
