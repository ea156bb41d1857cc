/*
 * The worker's half of http_gateway.
 */
#ifndef GATEWAY_WORKER_H
#define GATEWAY_WORKER_H

/* What makes the program a worker; the connection string follows. */
#define WORKER_ARGUMENT "--be-a-worker"

/* Works until the main process says to end. Returns an exit status. */
int be_a_worker(const char *connection);

#endif /* GATEWAY_WORKER_H */
