/*
 * Requests and replies: ids, hello, batches, resending.
 *
 *     coat_batch batch;
 *     coat_batch_begin(&batch, conn, connect_timeout_ms, timeout_ms);
 *     coat_batch_add(&batch, "kv.get", params, 1, &err)        as often as needed
 *     coat_exchange(&batch, reply, context, &err)              sends all, calls reply for each answer
 *
 * The requests of a batch leave in one write, with hello in front on a new connection, and the
 * replies are read as they arrive, whatever their order.
 *
 * A connection can die while it is used: the daemon was restarted or killed. Then the batch is sent
 * once more on a new connection, if nothing of it was sent before or if sending it twice does no
 * harm. Releases that an earlier batch left overdue go in front of it. The table of methods in client.c says for which
 * methods that holds, and why. A daemon that says it is unavailable, because it starts or stops, is asked again until
 * connect_timeout_ms is over.
 */

#ifndef COATCHECK_CLIENT_H
#define COATCHECK_CLIENT_H

#include "php.h"
#include <msgpack.h>
#include "connection.h"
#include "error.h"
#include "message.h"

typedef struct {
	coat_connection *conn;
	msgpack_packer packer;
	zend_long connect_timeout_ms;
	zend_long timeout_ms; /* from sending to the last reply */
	char method[64];      /* of the first request: named in messages */
	uint32_t first_id;
	uint32_t count;
	uint32_t answered;
	bool *is_answered; /* one for each request, or NULL for a batch of one */
	size_t frame_start;
	size_t largest;    /* size of the largest frame */
	bool resendable;   /* every request of the batch may be sent twice */
	bool in_doubt;     /* an attempt broke off: its requests may have been carried out */
	bool no_bridge;    /* do not wait for a daemon that restarts */
	bool session_lock; /* a request of the batch may take a session lock of the handler's */
	bool bound_lock;   /* a request of the batch may take a bound lock of the script's */
} coat_batch;

/* Called once for each request with its error, or with its result when error is NULL. Both are valid
 * until it returns. It may bail out; it must not start another exchange. */
typedef void (*coat_reply_function)(
	void *context, uint32_t index, const msgpack_object *error, const msgpack_object *result);

void coat_batch_begin(coat_batch *batch, coat_connection *conn, zend_long connect_timeout_ms, zend_long timeout_ms);

/* Add a request with parameters from C or from PHP. False with err set when they cannot be sent. */
bool coat_batch_add(coat_batch *batch, const char *method, const coat_param *params, size_t count, coat_error *err);
bool coat_batch_add_array(coat_batch *batch, zend_string *method, HashTable *params, coat_error *err);

/* True when every request got its answer, be it an error of its own. Otherwise err says what broke,
 * and the connection is closed. A frame above the daemon's limit is refused before anything is sent. */
bool coat_exchange(coat_batch *batch, coat_reply_function reply, void *context, coat_error *err);

/* Notes in an error of the daemon's, as coat_exchange does in its own, whether the batch was perhaps carried out all
 * the same, because an attempt before this answer had broken off. */
void coat_note_doubt(const coat_batch *batch, coat_error *err);

/* At the end of a request: if locks may be left on the connection, tells the daemon to release them. */
void coat_end_request(coat_connection *conn);

#endif
