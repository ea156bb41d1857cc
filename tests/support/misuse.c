/*
 * misuse.c: see misuse.h.
 */
#include "misuse.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { NAMES_MAX = 256, TEXT_MAX = 128 * 1024 };

static const char *names[NAMES_MAX];
static size_t name_count;
static size_t faults;

void misuse_begin(void)
{
    name_count = 0;
    faults = 0;
}

size_t misuse_faults(void)
{
    return faults;
}

static bool is_noted(const char *name, size_t size)
{
    for (size_t i = 0; i < name_count; i++) {
        if (strncmp(names[i], name, size) == 0 && names[i][size] == '\0') {
            return true;
        }
    }
    return false;
}

void misuse_note(const char *function)
{
    const char *const name = function[0] == '&' ? function + 1 : function;
    if (!is_noted(name, strlen(name)) && name_count < NAMES_MAX) {
        names[name_count++] = name;
    }
}

void misuse_check(const char *file, int line, const char *function, bool failed, intmax_t result,
                  int error)
{
    const int seen = errno;
    misuse_note(function);
    if (error == ANYTHING || (failed == (error != 0) && (!failed || seen == error))) {
        return;
    }
    faults++;
    (void)fprintf(stderr, "%s:%d: %s: result %jd, %s: %s; expected was %s\n", file, line, function,
                  result, failed ? "failed" : "did not fail", evzmq_strerror(seen),
                  error == 0 ? "success" : evzmq_strerror(error));
}

/* Reads a public header without the lines of the preprocessor, newlines as spaces. */
static char *read_header(const char *header)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/../include/evzmq/%s", EVZMQ_TESTS_DIR, header);
    FILE *const file = fopen(path, "r");
    assert_non_null(file);
    char *const text = calloc(1, TEXT_MAX);
    assert_non_null(text);
    char line[512];
    size_t used = 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        const size_t size = strlen(line);
        if (line[0] == '#') {
            continue;
        }
        assert_true(used + size < TEXT_MAX);
        memcpy(text + used, line, size);
        used += size;
        text[used - 1] = ' ';
    }
    (void)fclose(file);
    return text;
}

/* The names that a header declares: each ends before a parenthesis or a semicolon. */
static size_t check_header(const char *header)
{
    static const char mark[] = "EVZMQ_API ";
    char *const text = read_header(header);
    size_t missing = 0;
    for (const char *at = text; (at = strstr(at, mark)) != NULL;) {
        at += sizeof(mark) - 1;
        const char *end = at + strcspn(at, "(;");
        const char *start = end;
        while (isalnum((unsigned char)start[-1]) || start[-1] == '_') {
            start--;
        }
        if (!is_noted(start, (size_t)(end - start))) {
            (void)fprintf(stderr, "%s: no row for %.*s\n", header, (int)(end - start), start);
            missing++;
        }
    }
    free(text);
    return missing;
}

void misuse_complete(const char *const *headers)
{
    size_t missing = 0;
    for (; *headers != NULL; headers++) {
        missing += check_header(*headers);
    }
    assert_int_equal(missing, 0);
}
