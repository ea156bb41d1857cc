/**
 * @file record_fields.h
 * The records of the wire vectors by the names the vectors have for them, and their fields compared
 * with the vectors' JSON.
 */
#ifndef TESTS_SUPPORT_RECORD_FIELDS_H
#define TESTS_SUPPORT_RECORD_FIELDS_H

#include <evzmq/records.h>

#include "json.h"

/** The schema of a type in the vectors' first column; fails the test for an unknown one. */
const struct evzmq_schema *record_schema_find(const char *type);

/**
 * Asserts that a decoded value has the fields that the JSON states. Where that says "$auto" the
 * field has to be absent; completed_at, which we keep as it is on the wire, is not compared then.
 */
void record_fields_check(const struct evzmq_schema *schema, const void *value,
                         const struct json *expected);

#endif /* TESTS_SUPPORT_RECORD_FIELDS_H */
