/*
 * Printing: JSON objects, CSV lines, table lines, progress and errors. Every line is flushed, so
 * that a pipe shows results as they come.
 */
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void report_init(struct report *report, enum bench_format format)
{
    *report = (struct report){.format = format, .progress = isatty(STDERR_FILENO)};
}

static struct report_field *add_field(struct report_row *row, const char *key, int is_text)
{
    struct report_field *field = &row->fields[row->count];
    if (row->count < REPORT_FIELDS_MAX - 1) {
        row->count++;
    }
    field->key = key;
    field->is_text = is_text;
    return field;
}

void report_add_text(struct report_row *row, const char *key, const char *value)
{
    struct report_field *field = add_field(row, key, 1);
    snprintf(field->value, sizeof(field->value), "%s", value);
}

void report_add_count(struct report_row *row, const char *key, uint64_t value)
{
    struct report_field *field = add_field(row, key, 0);
    snprintf(field->value, sizeof(field->value), "%llu", (unsigned long long)value);
}

void report_add_real(struct report_row *row, const char *key, double value, int decimals)
{
    struct report_field *field = add_field(row, key, 0);
    snprintf(field->value, sizeof(field->value), "%.*f", decimals, value);
}

/* Takes the progress text off the terminal. */
static void clear_progress(struct report *report)
{
    if (report->progress_shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        report->progress_shown = 0;
    }
}

/* Keys and texts are words of this program, so that nothing in them needs escaping. */
static void print_json(const struct report_row *row)
{
    for (size_t i = 0; i < row->count; i++) {
        const struct report_field *field = &row->fields[i];
        const char *quote = field->is_text ? "\"" : "";
        printf("%s\"%s\":%s%s%s", i == 0 ? "{" : ",", field->key, quote, field->value, quote);
    }
    puts("}");
}

static const struct report_field *find_field(const struct report_row *row, const char *key)
{
    for (size_t i = 0; i < row->count; i++) {
        if (strcmp(row->fields[i].key, key) == 0) {
            return &row->fields[i];
        }
    }
    return NULL;
}

/* All rows have the columns of the first: what a later one lacks is empty. */
static void print_csv(struct report *report, const struct report_row *row)
{
    if (report->header.count == 0) {
        report->header = *row;
        for (size_t i = 0; i < row->count; i++) {
            printf("%s%s", i == 0 ? "" : ",", row->fields[i].key);
        }
        puts("");
    }
    for (size_t i = 0; i < report->header.count; i++) {
        const struct report_field *field = find_field(row, report->header.fields[i].key);
        printf("%s%s", i == 0 ? "" : ",", field == NULL ? "" : field->value);
    }
    puts("");
}

void report_row(struct report *report, const struct report_row *row)
{
    clear_progress(report);
    if (report->format == BENCH_JSON) {
        print_json(row);
    } else if (report->format == BENCH_CSV) {
        print_csv(report, row);
    }
    fflush(stdout);
}

void report_line(struct report *report, const char *format, ...)
{
    if (report->format != BENCH_TABLE) {
        return;
    }
    clear_progress(report);
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    puts("");
    fflush(stdout);
}

void report_progress(struct report *report, const char *format, ...)
{
    if (!report->progress) {
        return;
    }
    fputs("\r\033[K", stderr);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fflush(stderr);
    report->progress_shown = 1;
}

int report_error(const char *format, ...)
{
    va_list arguments;
    fputs(isatty(STDERR_FILENO) ? "\r\033[Kecho_bench: " : "echo_bench: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputs("\n", stderr);
    return -1;
}

const char *report_commas(double value, char out[REPORT_COMMAS_MAX])
{
    char digits[REPORT_COMMAS_MAX];
    const int length = snprintf(digits, sizeof(digits), "%.0f", value);
    size_t at = 0;
    for (int i = 0; i < length && at < REPORT_COMMAS_MAX - 2; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            out[at++] = ',';
        }
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}
