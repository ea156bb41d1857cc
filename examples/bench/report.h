/*
 * What echo_bench prints. A mode fills one row a case; rows become JSON objects or CSV lines here.
 * The table for people is the mode's own text, through report_line().
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "options.h"

#define REPORT_FIELDS_MAX 40
#define REPORT_VALUE_MAX 48

struct report_field {
    const char *key; /* a constant string */
    int is_text;
    char value[REPORT_VALUE_MAX];
};

struct report_row {
    struct report_field fields[REPORT_FIELDS_MAX];
    size_t count;
};

struct report {
    enum bench_format format;
    int progress; /* stderr is a terminal */
    int progress_shown;
    struct report_row header; /* CSV: the columns, those of the first row */
};

#if defined(__GNUC__)
#define REPORT_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define REPORT_PRINTF(text, first)
#endif

void report_init(struct report *report, enum bench_format format);

/* The fields of a row, in the order in which they are to be printed. */
void report_add_text(struct report_row *row, const char *key, const char *value);
void report_add_count(struct report_row *row, const char *key, uint64_t value);
void report_add_real(struct report_row *row, const char *key, double value, int decimals);

/* Prints a row in the formats for machines; does nothing in a table. */
void report_row(struct report *report, const struct report_row *row);

/* Prints a line of the table; does nothing in the formats for machines. */
void report_line(struct report *report, const char *format, ...) REPORT_PRINTF(2, 3);

/* Shows on stderr what is being measured, when that is a terminal; the next line replaces it. */
void report_progress(struct report *report, const char *format, ...) REPORT_PRINTF(2, 3);

/* Says what went wrong, in one line on stderr. Returns -1, for the caller to return. */
int report_error(const char *format, ...) REPORT_PRINTF(1, 2);

/* Writes a number with commas, such as 2,345,678. Returns out. */
#define REPORT_COMMAS_MAX 32
const char *report_commas(double value, char out[REPORT_COMMAS_MAX]);

#endif /* BENCH_REPORT_H */
