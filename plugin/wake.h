/*
 * wake.h (L0): an fd that other threads make readable, so that a loop notices them.
 *
 * An eventfd where there is one, a pipe elsewhere. Its users write only when nothing written is
 * still unread, so neither ever fills up.
 */
#ifndef EVZMQ_WAKE_H
#define EVZMQ_WAKE_H

struct evzmq__wake {
    int read_fd;
    int write_fd; /* the same as read_fd for an eventfd */
};

/* Opens it. Returns 0, or -1 with EMFILE, ENFILE or ENOMEM. */
int evzmq__wake_open(struct evzmq__wake *wake);

/* The same with a pipe, on every system. */
int evzmq__wake_open_pipe(struct evzmq__wake *wake);

/* Makes the fd readable, unless it was closed or left. Thread: any. Keeps errno. */
void evzmq__wake_signal(const struct evzmq__wake *wake);

/* Makes it unreadable again. */
void evzmq__wake_clear(const struct evzmq__wake *wake);

void evzmq__wake_close(struct evzmq__wake *wake);

/* In a forked child: lets go of it without closing the fd to read, which an event that was
 * abandoned still has. What is signalled from here on does not reach the parent. */
void evzmq__wake_leave(struct evzmq__wake *wake);

#endif /* EVZMQ_WAKE_H */
