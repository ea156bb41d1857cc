/**
 * @file context.h
 * A ZeroMQ context that keeps count of its sockets, gives them safe options before they bind or
 * connect, and owns the private directory in which their ipc endpoints live.
 *
 * A context makes plain ZeroMQ sockets: attach them with evzmq_socket_new(), or use them with
 * libzmq. What libzmq leaves open is closed here: infinite lingers and message sizes, a second bind
 * that steals a live ipc path, ipc files that stay behind, an ipc listener that aborts the process
 * when it runs out of file descriptors, and a zmq_ctx_term(3) that never returns.
 *
 * The first ipc endpoint makes the directory; a context that is used for tcp only makes none. The
 * library reads no environment variable.
 *
 * What remains. These things libzmq 4.3.4 does whoever calls it, so that a program that lets in
 * peers it does not trust must be ready for its own end:
 *
 * - A message whose last part never comes is held in memory, part after part. ZMQ_MAXMSGSIZE
 *   looks at each part alone, the high water marks count whole messages,
 *   evzmq_socket_set_max_message() sees a message when it is complete, and no event tells: one
 *   peer filled 1.4 GiB in 6 seconds.
 * - Errors of accept(2). An ipc listener aborts the process on EMFILE, ENOMEM, ENOBUFS and
 *   EPERM, a tcp listener on EPERM. EVZMQ_CONTEXT_DESCRIPTORS_RESERVE is looked at when
 *   something is made; afterwards peers use up descriptors. A program that asks
 *   evzmq_context_check_descriptors() at each EVZMQ_MONITOR_ACCEPTED (<evzmq/monitor.h>), and
 *   closes the listening socket when that warns, is safe from peers that are no faster than
 *   its loop: the connections that a listener accepted end with it (so they do at
 *   zmq_unbind(3)), and good peers come again when the endpoint is bound anew.
 * - A ROUTER, REP, PUB or XPUB that connects aborts the process (zmtp_engine.cpp, lines 446
 *   and 463) when its server speaks ZMTP 1 or 2 (for PUB and XPUB: 1), fills the pipe to the
 *   high water mark, and has it connect anew. ZMQ_ZAP_DOMAIN set to anything before bind and
 *   connect has libzmq refuse peers of these protocols, which ZMTP 3 replaced in 2013. It
 *   costs nothing else as long as nobody answers at inproc://zeromq.zap.01.
 * - A ROUTER or REP that connected over inproc while nobody was bound there, and was
 *   disconnected (zmq_disconnect(3)), aborts the process (pipe.cpp, line 87) when somebody
 *   binds that name.
 * - A linger that runs out among multipart messages: see EVZMQ_OPT_CLOSE_ON_FREE.
 * - There is no authentication in this library yet: whoever can reach an endpoint can connect,
 *   and be such a peer.
 *
 * The means against all of it: let in only who may cost the process its life (ipc endpoints in
 * the private directory, which are this user's alone, or tcp that others cannot reach); bound
 * the memory of the process (a memory cgroup, or RLIMIT_DATA of setrlimit(2)), so that the
 * machine outlives it; and have somebody start it again: a supervisor, or a pool for its workers
 * (evzmq_pool_options::restarts_max).
 *
 * Of every call of this header: Thread: one at a time, that of the context's sockets. Callbacks:
 * yes. Nothing in a context is locked: for inproc between threads let each thread have a context
 * made with evzmq_context_new_with() from the same ZeroMQ context.
 *
 * Fork: in a child every call fails with ECHILD and touches nothing of the parent's: no file is
 * removed and no lock released. evzmq_context_free() releases the child's copy of the memory.
 */
#ifndef EVZMQ_CONTEXT_H
#define EVZMQ_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include <evzmq/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct evzmq_context;

/** In a field of struct evzmq_context_limits: none of it, that is no limit, no linger, no
 * heartbeat. It has to be asked for, since an absent limit is how a peer fills the memory. */
#define EVZMQ_CONTEXT_NONE (-1)

/** ZMQ_LINGER, milliseconds. libzmq's -1 lets zmq_ctx_term(3) hang for ever on one message that
 * nobody takes. A second is long for a peer that reads and short for a program that ends. */
#define EVZMQ_CONTEXT_LINGER_MS_DEFAULT 1000

/** ZMQ_MAXMSGSIZE, bytes, of each part of a received message. libzmq's -1 has the nine bytes of a
 * frame header allocate what they announce. This is what the output queue of a socket holds. */
#define EVZMQ_CONTEXT_MESSAGE_BYTES_MAX_DEFAULT (64 * 1024 * 1024)

/** ZMQ_SNDHWM and ZMQ_RCVHWM, messages for each peer. libzmq's own value, set so that it does not
 * change under a program; its 0 is no limit at all. They count messages, not bytes. Over inproc the
 * marks of both sides add up, and a sender that met its mark goes on when half of it was read: no
 * program should count on an exact number. */
#define EVZMQ_CONTEXT_HIGH_WATER_MARK_DEFAULT 1000

/** ZMQ_HANDSHAKE_IVL, milliseconds. libzmq's 30 s let whoever connects and says nothing hold a file
 * descriptor for that long. */
#define EVZMQ_CONTEXT_HANDSHAKE_MS_DEFAULT 2000

/** ZMQ_HEARTBEAT_IVL, milliseconds, for tcp only. Without heartbeats a half-open connection takes
 * messages and tells nobody. An ipc connection cannot be half-open, and would lose messages when a
 * stopped process is taken for a dead one.
 *
 * Heartbeats come from libzmq's threads: they say that a process and its machine are there, not
 * that its event loop runs. Whether a program does its work only messages of its own can tell, as a
 * pool's workers send them (evzmq_pool_options::silence_ms), or requests with a deadline
 * (<evzmq/request.h>). */
#define EVZMQ_CONTEXT_HEARTBEAT_MS_DEFAULT 2000

/** ZMQ_HEARTBEAT_TIMEOUT and ZMQ_HEARTBEAT_TTL, milliseconds, for tcp only: how long either side
 * waits for a sign of life. Five heartbeats, so that a busy machine is not taken for a dead one. */
#define EVZMQ_CONTEXT_HEARTBEAT_TIMEOUT_MS_DEFAULT 10000

/** ZMQ_BACKLOG, connections that wait to be accepted. Connecting to an ipc listener whose backlog
 * is full fails at once and is tried again later, so libzmq's 100 would delay workers that all
 * start together. */
#define EVZMQ_CONTEXT_BACKLOG_DEFAULT 256

/** ZMQ_MAX_SOCKETS. A closed socket counts until its linger has passed, so libzmq's 1023 is near
 * for programs that open and close many. */
#define EVZMQ_CONTEXT_SOCKETS_MAX_DEFAULT 4096

/** The number of file descriptors that must be free for a socket or an endpoint to be made. An ipc
 * listener of libzmq 4.3 aborts the whole process when accept(2) fails with EMFILE, and so do
 * libzmq's threads when they start without descriptors. */
#define EVZMQ_CONTEXT_DESCRIPTORS_RESERVE 16

/** The share of the process's file descriptors, in percent, from which
 * evzmq_context_check_descriptors() warns. */
#define EVZMQ_CONTEXT_DESCRIPTORS_WARNING_PERCENT 80

/** The longest path of an ipc endpoint, in bytes without the terminating zero: what fits
 * sockaddr_un::sun_path (unix(7)), which is shorter on the BSDs and macOS. */
#if defined(__linux__)
#define EVZMQ_CONTEXT_IPC_PATH_MAX 107
#else
#define EVZMQ_CONTEXT_IPC_PATH_MAX 103
#endif

/** Who may connect to the ipc endpoints a context binds. */
enum evzmq_context_peers {
    /** Processes with the effective user id of this one, whatever the directory's and the file's
     * mode say. Abstract names (`ipc://@name`) have no mode: this is their only protection. */
    EVZMQ_CONTEXT_PEERS_SAME_USER = 0,
    /** Whoever the file system lets in; anyone, for abstract names. A socket file keeps the mode
     * that the umask gives it, and its directory may be one that others write to. */
    EVZMQ_CONTEXT_PEERS_ANY
};

/** The options that the sockets of a context get. 0 in a field means its default. What a program
 * sets itself on a socket with zmq_setsockopt(3) before it binds or connects comes after these. */
struct evzmq_context_limits {
    size_t size; /**< sizeof(struct evzmq_context_limits) */
    int sockets_max; /**< ZMQ_MAX_SOCKETS; only until the first socket is made, and not for a
                        context made with evzmq_context_new_with() */
    int linger_ms; /**< ZMQ_LINGER; default EVZMQ_CONTEXT_LINGER_MS_DEFAULT */
    int64_t message_bytes_max; /**< ZMQ_MAXMSGSIZE; default
                                  EVZMQ_CONTEXT_MESSAGE_BYTES_MAX_DEFAULT */
    int send_high_water_mark; /**< ZMQ_SNDHWM; default EVZMQ_CONTEXT_HIGH_WATER_MARK_DEFAULT */
    int receive_high_water_mark; /**< ZMQ_RCVHWM; default EVZMQ_CONTEXT_HIGH_WATER_MARK_DEFAULT */
    int handshake_ms; /**< ZMQ_HANDSHAKE_IVL; default EVZMQ_CONTEXT_HANDSHAKE_MS_DEFAULT */
    int heartbeat_ms; /**< of tcp connections */
    int heartbeat_timeout_ms; /**< of tcp connections; above heartbeat_ms, at most 6553500 */
    int backlog; /**< ZMQ_BACKLOG; default EVZMQ_CONTEXT_BACKLOG_DEFAULT */
    enum evzmq_context_peers peers; /**< who may connect to ipc endpoints */
};

/**
 * Makes a context with a ZeroMQ context of its own.
 *
 * @param io_threads  ZMQ_IO_THREADS; 0 for 1
 * @param socket_dir  where the private directory for ipc endpoints is made, copied; NULL for
 * /dev/shm where that is usable (memory, so a crash of the machine leaves nothing), else /tmp. It
 * is looked at when the first ipc endpoint is bound: see evzmq_context_get_directory().
 * @return a context that the caller must free; or NULL with EINVAL (io_threads negative, or an
 * empty socket_dir), ENOMEM, EMFILE
 */
EVZMQ_API struct evzmq_context *evzmq_context_new(int io_threads, const char *socket_dir);

/**
 * Makes a context around a ZeroMQ context that the caller keeps. evzmq_context_close() then does
 * not terminate it: that is the caller's to do afterwards.
 *
 * @param zmq_context  from zmq_ctx_new(3); must outlive the result
 * @param socket_dir   as for evzmq_context_new()
 * @return a context that the caller must free; or NULL with EINVAL, ENOMEM
 */
EVZMQ_API struct evzmq_context *evzmq_context_new_with(void *zmq_context, const char *socket_dir);

/**
 * Sets the options of sockets that are made from now on.
 *
 * @param limits  copied; NULL for the defaults
 * @return 0, or -1 with EINVAL (NULL context, unknown size, a field out of range,
 * EVZMQ_CONTEXT_NONE in sockets_max or backlog), EBUSY (sockets_max changes after a socket was
 * made), ENOTSUP (sockets_max for a context of evzmq_context_new_with()), ESHUTDOWN (closed),
 * ECHILD
 */
EVZMQ_API int evzmq_context_set_limits(struct evzmq_context *context,
                                       const struct evzmq_context_limits *limits);

/**
 * Makes a ZeroMQ socket with the context's options set. A ROUTER has ZMQ_ROUTER_MANDATORY, without
 * which it drops messages to unknown and to full peers without a word. ZMQ_IMMEDIATE stays 0:
 * messages for a peer that is not connected yet wait, up to the high water mark.
 *
 * The socket counts as a child of the context until it is closed by evzmq_context_close_socket() or
 * by evzmq_socket_free() of an adapter with EVZMQ_OPT_CLOSE_ON_FREE. Closing it with zmq_close(3)
 * is a bug: the context would not learn of it.
 *
 * @param type  ZMQ_PUSH and the like, from `<zmq.h>`
 * @return a socket that the caller must close; or NULL with EINVAL (NULL context, unknown type),
 * EMFILE (the limit of sockets, or too few free file descriptors), ENOMEM, ETERM, ESHUTDOWN
 * (closed), ECHILD
 */
EVZMQ_API void *evzmq_context_socket(struct evzmq_context *context, int type);

/**
 * Closes a socket of the context and removes the ipc files it has bound. Does not wait: what was
 * sent lingers in the background. An infinite linger is replaced by the context's.
 *
 * @param zmq_socket  from evzmq_context_socket() of the same context; must not be used again
 * @return 0, or -1 with EINVAL (NULL, or not a socket of this context), EBUSY (attached to an event
 * base: free the adapter first), ECHILD
 */
EVZMQ_API int evzmq_context_close_socket(struct evzmq_context *context, void *zmq_socket);

/**
 * Binds a socket of the context. Use evzmq_socket_touch() afterwards when it is attached.
 *
 * - "ipc://" followed by an asterisk: a new name in the context's private directory. A file that
 * somebody else put there stays; ENOENT when the directory itself was removed or replaced.
 * - "ipc://PATH": refused with EADDRINUSE when something accepts connections there, or another
 * evzmq context holds it: libzmq would take the path from it and say nothing. A socket that a dead
 * process of the same user left is replaced; anything else there is left alone (EEXIST). A file
 * "PATH.lock" stands beside the socket while it is bound; a killed process leaves both for the
 * next one to take over. The path's directory must be as evzmq_context_get_directory() says, unless
 * EVZMQ_CONTEXT_PEERS_ANY was asked for.
 * - `ipc://@name`: an abstract name.
 * - anything else goes to zmq_bind(3) as it is; tcp gets the context's heartbeats, unless the
 * program has set ZMQ_HEARTBEAT_IVL.
 *
 * @param zmq_socket  from evzmq_context_socket() of the same context
 * @param endpoint    as above
 * @return 0; evzmq_context_get_endpoint() tells where. Or -1, with a text in
 * evzmq_context_get_error() and EINVAL, ENAMETOOLONG (an ipc path above
 * EVZMQ_CONTEXT_IPC_PATH_MAX), EADDRINUSE, EEXIST, EMFILE (see EVZMQ_CONTEXT_DESCRIPTORS_RESERVE),
 * ENOMEM, ESHUTDOWN (closed), ECHILD, those of evzmq_context_get_directory(), of open(2) and of
 * zmq_bind(3). Nothing is bound then and no file is left.
 */
EVZMQ_API int evzmq_context_bind(struct evzmq_context *context, void *zmq_socket,
                                 const char *endpoint);

/**
 * Connects a socket of the context. ZeroMQ connects in the background and tries for ever: success
 * does not mean that anybody is there, not even that an ipc path exists.
 *
 * @param zmq_socket  from evzmq_context_socket() of the same context
 * @param endpoint    of any transport; tcp gets heartbeats as by evzmq_context_bind()
 * @return 0; or -1, with a text in evzmq_context_get_error() and EINVAL, ENAMETOOLONG (an ipc path
 * above EVZMQ_CONTEXT_IPC_PATH_MAX), ESHUTDOWN (closed), ECHILD, and those of zmq_connect(3)
 */
EVZMQ_API int evzmq_context_connect(struct evzmq_context *context, void *zmq_socket,
                                    const char *endpoint);

/**
 * Where a socket is bound, in the form that a peer connects to: with the path or the port that was
 * chosen.
 *
 * @return the endpoint of the socket's latest successful evzmq_context_bind(), which lives until
 * the next one or until the socket is closed; or NULL with EINVAL (NULL, or not a socket of this
 * context), ENOENT (never bound), ECHILD
 */
EVZMQ_API const char *evzmq_context_get_endpoint(const struct evzmq_context *context,
                                                 const void *zmq_socket);

/**
 * The private directory, which is made when it does not exist yet. It has mode 0700 and a unique
 * name, evzmq-XXXXXX, and is removed by evzmq_context_close().
 *
 * The directory it is made in must be one that no other user can tamper with: it and all above it
 * belong to this user or to root and are writable by nobody else, or have the sticky bit, as /tmp
 * has; and it is no symbolic link. Directories that killed processes of this user left there are
 * removed: every living one holds a lock (flock(2)) on its own. A
 * forked child shares that lock until it frees the context, executes another program or ends.
 *
 * @return the path, which lives until evzmq_context_free(); or NULL, with a text in
 * evzmq_context_get_error() and EINVAL (NULL context), EACCES (another user could tamper with it),
 * ELOOP (a symbolic link), ENAMETOOLONG (no room for a name in it), ENOENT, ENOTDIR, ENOMEM,
 * EMFILE, those of mkdtemp(3), ESHUTDOWN (closed), ECHILD
 */
EVZMQ_API const char *evzmq_context_get_directory(struct evzmq_context *context);

/**
 * Whether the process has file descriptors left. An ipc connection costs the side that accepts it
 * one, and running out there aborts the process: see EVZMQ_CONTEXT_DESCRIPTORS_RESERVE. Ask before
 * starting what will connect, and now and then while it runs.
 *
 * @param needed  how many more there are to be
 * @return 0, or 1 where they would leave the process above
 * EVZMQ_CONTEXT_DESCRIPTORS_WARNING_PERCENT of its limit (RLIMIT_NOFILE); or -1 with EMFILE (fewer
 * are free than needed and the reserve; a text is in evzmq_context_get_error()), EINVAL, ECHILD. 0
 * where the system does not tell.
 */
EVZMQ_API int evzmq_context_check_descriptors(struct evzmq_context *context, size_t needed);

/**
 * Why the latest call on this context failed, in words with the path, the limit and the like.
 *
 * @return a text without newline that lives until the next call on the context that fails; "" when
 * none has
 */
EVZMQ_API const char *evzmq_context_get_error(const struct evzmq_context *context);

/**
 * Ends a context: terminates its ZeroMQ context, removes its ipc files and its directory. Waits for
 * what closed sockets still have to deliver, at most for the longest of their lingers (one second
 * by default). Removes only what this context has made: a file that somebody put in a socket's
 * place stays, and so does the directory then.
 *
 * A second call does nothing and returns 0. Other calls fail with ESHUTDOWN afterwards.
 *
 * @return 0, or -1 with EBUSY (sockets or pools of the context live; nothing was changed), EINVAL
 * (NULL), ECHILD
 */
EVZMQ_API int evzmq_context_close(struct evzmq_context *context);

/**
 * Closes a context, unless that was done, and frees it. In a forked child: releases memory only.
 *
 * @param context  may be NULL
 * @return 0, or -1 with EBUSY (as evzmq_context_close(); the context still lives)
 */
EVZMQ_API int evzmq_context_free(struct evzmq_context *context);

#ifdef __cplusplus
}
#endif

#endif /* EVZMQ_CONTEXT_H */
