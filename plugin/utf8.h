/*
 * utf8.h: is this UTF-8? Layer 0, pure.
 *
 * Used for every str field of a typed record, so the usual case (ASCII, often a few bytes) must
 * cost next to nothing: evzmq__utf8_valid_field() settles short ASCII strings inline.
 */
#ifndef EVZMQ_PLUGIN_UTF8_H
#define EVZMQ_PLUGIN_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Whether size bytes are UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above
 * U+10FFFF, nothing cut short. Noncharacters and U+0000 are fine. When they are not, *out_offset
 * (which may be NULL) is the index of the first byte of the first sequence at fault. data may be
 * NULL when size is 0.
 */
bool evzmq__utf8_valid(const void *data, size_t size, size_t *out_offset);

/* The same with the short ASCII case inline: two overlapping loads cover 8 to 16 bytes. */
static inline bool evzmq__utf8_valid_field(const void *data, size_t size, size_t *out_offset)
{
    if (size - 8 <= 8) {
        uint64_t head;
        uint64_t tail;
        memcpy(&head, data, sizeof(head));
        memcpy(&tail, (const unsigned char *)data + size - 8, sizeof(tail));
        if (((head | tail) & UINT64_C(0x8080808080808080)) == 0) {
            return true;
        }
    } else if (size < 8) {
        const unsigned char *bytes = data;
        unsigned char all = 0;
        if (size >= 4) {
            uint32_t head;
            uint32_t tail;
            memcpy(&head, bytes, sizeof(head));
            memcpy(&tail, bytes + size - 4, sizeof(tail));
            if (((head | tail) & UINT32_C(0x80808080)) == 0) {
                return true;
            }
        } else {
            for (size_t i = 0; i < size; i++) {
                all = (unsigned char)(all | bytes[i]);
            }
            if (all < 0x80) {
                return true;
            }
        }
    }
    return evzmq__utf8_valid(data, size, out_offset);
}

#endif /* EVZMQ_PLUGIN_UTF8_H */
