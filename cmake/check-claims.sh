#!/bin/sh
# Checks the tables of tests/README.md against what they speak of. In the last column of a row stand,
# with semicolons between them:
#
#   `behaviour/test_x`: `claim`, `claim`   the file is tests/behaviour/test_x.c (or .sh), and each of
#                                          the claims is one of its tests; or, in plain words, all
#   `path/of/a/file`: "sentence"           the file has the sentence, line breaks left aside
#   see A1, B2                             rows of these tables
#   (open: words)                          what is still to be proven; told, and no fault
set -u

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd) || exit 1
cd "$root" || exit 1

awk '
    function bad(text) {
        printf "tests/README.md:%d: %s\n", FNR, text
        faults++
    }
    # The whole of a file as one line, without what begins the lines of comments; "" if there is none.
    function text_of(path,    line, text) {
        if (path in texts) {
            return texts[path]
        }
        text = ""
        while ((getline line < path) > 0) {
            sub(/^[ \t]*(\*|#)?[ \t]+/, "", line)
            text = text " " line
        }
        close(path)
        gsub(/[ \t]+/, " ", text)
        return texts[path] = text
    }
    function file_of(name) {
        if (text_of("tests/" name ".c") != "") {
            return "tests/" name ".c"
        }
        return text_of("tests/" name ".sh") != "" ? "tests/" name ".sh" : ""
    }
    function has_claim(path, name,    text) {
        text = text_of(path)
        if (path ~ /\.sh$/) {
            return text ~ ("(^| )claim " name "( |$)")
        }
        gsub(/\( /, "(", text)
        return text ~ ("(claim|cmocka_unit_test[a-z_]*)\\(" name "[,)]")
    }
    function check_claims(name, list,    path, names, n, i) {
        path = file_of(name)
        if (path == "") {
            bad("there is no test tests/" name)
            return
        }
        if (list !~ /`/) {
            proofs++
            return
        }
        n = split(list, names, /, */)
        for (i = 1; i <= n; i++) {
            proofs++
            if (names[i] !~ /^`[a-z0-9_]+`$/) {
                bad("this is no name of a claim: " names[i])
            } else if (!has_claim(path, substr(names[i], 2, length(names[i]) - 2))) {
                bad(path " has no claim " names[i])
            }
        }
    }
    function check_quote(path, quote) {
        sentences++
        if (text_of(path) == "") {
            bad("there is no file " path)
        } else if (!index(text_of(path), quote)) {
            bad(path " does not say: " quote)
        }
    }
    function check_references(list,    ids, n, i) {
        n = split(list, ids, /, */)
        for (i = 1; i <= n; i++) {
            references[ids[i]] = FNR
        }
    }
    function check(piece,    name) {
        if (piece ~ /^\(open: .*\)$/) {
            printf "tests/README.md:%d: %s is open: %s\n", FNR, id, piece
            open++
        } else if (piece ~ /^see /) {
            check_references(substr(piece, 5))
        } else if (piece ~ /^`[^`]+`: ".*"$/) {
            name = piece
            sub(/^`/, "", name)
            sub(/`.*/, "", name)
            check_quote(name, substr(piece, length(name) + 6, length(piece) - length(name) - 6))
        } else if (piece ~ /^`[^`]+`: ./) {
            name = piece
            sub(/^`/, "", name)
            sub(/`.*/, "", name)
            check_claims(name, substr(piece, length(name) + 5))
        } else {
            bad("this proves nothing: " piece)
        }
    }
    # The pieces of a cell. A quoted sentence may have semicolons and commas of its own.
    function check_cell(cell,    at, quoted, c, piece) {
        piece = ""
        quoted = 0
        for (at = 1; at <= length(cell); at++) {
            c = substr(cell, at, 1)
            quoted = c == "\"" ? !quoted : quoted
            if (c == ";" && !quoted) {
                check(piece)
                piece = ""
                at++
            } else {
                piece = piece c
            }
        }
        check(piece)
    }

    /^\| (Fact )?[A-Z]?[0-9]+ \|/ {
        n = split($0, cells, / \| /)
        id = cells[1]
        sub(/^\| /, "", id)
        sub(/ \|$/, "", cells[n])
        if (n != 3) {
            bad("a row of " n " columns, not of 3")
            next
        }
        if (id in rows) {
            bad(id " stands twice")
        }
        rows[id] = FNR
        count++
        check_cell(cells[3])
    }
    END {
        for (id in references) {
            if (!(id in rows)) {
                printf "tests/README.md:%d: there is no %s\n", references[id], id
                faults++
            }
        }
        if (count == 0) {
            print "tests/README.md has no rows"
            faults++
        }
        printf "%d rows, %d tests, %d sentences, %d open, %d faults\n", count, proofs, sentences,
            open, faults
        exit faults > 0
    }' tests/README.md
