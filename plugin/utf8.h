/*
 * UTF-8 validation as RFC 3629 defines it: no overlong forms, no surrogates, nothing above
 * U+10FFFF.
 */
#ifndef EVZMQ_PLUGIN_UTF8_H
#define EVZMQ_PLUGIN_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the bytes are UTF-8. If not, *out_offset is where the first sequence that is none
 * begins. */
bool evzmq__utf8_valid(const void *data, size_t size, size_t *out_offset);

#endif /* EVZMQ_PLUGIN_UTF8_H */
