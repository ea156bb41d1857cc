/*
 * errortext.c (L0): see errortext.h.
 */
#include "errortext.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int evzmq__errortext_set(struct evzmq__errortext *text, int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(text->bytes, sizeof(text->bytes), format, arguments) < 0) {
        text->bytes[0] = '\0';
    }
    va_end(arguments);
    for (char *at = text->bytes; *at != '\0'; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f) {
            *at = '?';
        }
    }
    errno = error;
    return -1;
}
