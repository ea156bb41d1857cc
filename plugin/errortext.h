/*
 * errortext.h (L0): the words that go with an errno value where the number alone does not help:
 * which path, which limit. The object that failed keeps them; there is no thread-local text.
 */
#ifndef EVZMQ_ERRORTEXT_H
#define EVZMQ_ERRORTEXT_H

struct evzmq__errortext {
    char bytes[512];
};

/* Sets the text and errno. Returns -1, so that a failure is one statement. The text is cut where it
 * is too long, hence paths come last in it, and control characters in it become question marks. */
int evzmq__errortext_set(struct evzmq__errortext *text, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif /* EVZMQ_ERRORTEXT_H */
