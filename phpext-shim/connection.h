/*
 * The connection to one daemon socket: opening, sending, receiving, all against deadlines.
 *
 * There is one connection for each socket in a process (in a thread under ZTS), made when first
 * needed and kept over requests. It knows bytes and frames, not messages.
 *
 * After a fork the child finds the parent's descriptor here. The child must not speak on it, not
 * even to say good-bye: the daemon would take that for the parent's words. So every use compares
 * coat_pid() with the process that connected, and on a mismatch only closes the descriptor.
 *
 * A reply that is late or makes no sense closes the connection: what arrives on a connection is
 * always the answer to what was asked on it last.
 *
 * Waits end at their deadline, or when PHP's own time limit has struck (a handler that waits in a
 * system call would overrun it). Other signals do not end a wait: a child that exits must not cost
 * its parent the session.
 */

#ifndef COATCHECK_CONNECTION_H
#define COATCHECK_CONNECTION_H

#include "php.h"
#include <msgpack.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include "error.h"
#include "message.h"
#include "overdue.h"

typedef struct coat_connection {
	struct coat_connection *next;
	char *socket;
	int fd;              /* -1 while there is none */
	pid_t pid;           /* the process that connected */
	uint64_t generation; /* grows with each connect: a lock taken on an older one was released by the daemon */
	bool was_connected;  /* this process has spoken to this socket, and it was there when last tried */
	bool mid_exchange;   /* replies are due; only a bailout leaves it set between two exchanges */
	bool session_lock;   /* a session lock may be held for which no release was confirmed */
	bool bound_lock;     /* this request took a bound lock by a call of its own */
	uint32_t next_id;
	uint32_t max_frame; /* 0 until hello is answered */
	char server[64];    /* the daemon's version */
	time_t connected_at;
	coat_overdue *overdue; /* releases to be sent in front of the next batch */
	coat_buffer preface;   /* what goes out in front of a batch: hello, overdue releases */
	coat_buffer out;
	coat_buffer in;
	size_t in_taken;        /* bytes of `in` that were handed out already */
	msgpack_unpacked reply; /* the reply being read; here so that a bailout does not leak it */
} coat_connection;

/* What became of a step in an exchange. */
typedef enum {
	COAT_IO_OK,
	COAT_IO_TIMEOUT,     /* the deadline passed */
	COAT_IO_INTERRUPTED, /* PHP's time limit struck */
	COAT_IO_CLOSED,      /* the daemon closed the connection, or it broke */
} coat_io;

/* Bytes on their way out. */
typedef struct {
	struct iovec parts[2];
	int count;
	size_t left; /* bytes not yet sent */
	size_t sent;
} coat_outgoing;

/* Has a fork noticed from here on; once, when the module is loaded. False when the system refuses. */
bool coat_watch_forks(void);

/* The pid of this process. */
pid_t coat_pid(void);

/* Milliseconds of the monotonic clock. */
int64_t coat_now_ms(void);

/* The connection for a socket, made on first use but not opened. */
coat_connection *coat_connection_for(const char *socket);

/* The same, or NULL if this thread never used the socket. */
coat_connection *coat_connection_find(const char *socket);

/* Drops a connection that a fork handed down, that a bailout left in the middle, or whose daemon
 * has gone. True when there is a live one afterwards. */
bool coat_connection_alive(coat_connection *conn);

/* Connects. While `bridge` is set and this process knew the daemon before, a missing daemon is taken for one that
 * restarts: it is tried again until the time limit. Only then, so that an absent daemon costs nobody a second each. */
bool coat_connection_open(coat_connection *conn, zend_long timeout_ms, bool bridge, coat_error *err);

/* Gives back the memory of unusually large messages, when nothing is left unread. */
void coat_connection_trim(coat_connection *conn);

/* Lets a moment pass between two tries. */
void coat_connection_pause(void);

/* Closes without a word. */
void coat_connection_close(coat_connection *conn);

/* Sends what the kernel takes, else waits for the daemon and receives what there is. */
coat_io coat_connection_step(coat_connection *conn, coat_outgoing *outgoing, int64_t deadline_ms);

/* The next whole frame that was received, without its length. *length is 0 when it is not complete yet; false when
 * the daemon claims a frame above the limit. The bytes are valid until the next step. */
bool coat_connection_next_frame(coat_connection *conn, size_t limit, const char **frame, size_t *length);

/* Sends a frame without waiting for anything; a connection that does not take it at once is closed. */
void coat_connection_notify(coat_connection *conn, const char *frame, size_t length);

void coat_connections_free(coat_connection *connections);

#endif
