#include "client.h"
#include "php_coatcheck.h"
#include "SAPI.h"
#include <unistd.h>

#define COAT_PROTOCOL_VERSION 1

/* What hello has not told yet: the protocol's default. */
#define COAT_DEFAULT_MAX_FRAME (16 * 1024 * 1024)

/* Envelope of a reply around data that filled a frame. */
#define COAT_FRAME_SLACK (64 * 1024)

/* A request above this size waits for the answer to hello instead of following it at once, because
 * the answer says whether the daemon takes it. */
#define COAT_HELLO_PIPELINE_MAX (64 * 1024)

/*
 * The methods that may be sent twice.
 *
 * Reading twice is harmless. session.open and lock.acquire carry their token: the second gets the
 * grant of the first. session.commit carries token and fence: if the first landed, the second writes
 * the same bytes again, unless another request got the lock in between, and then it is refused and
 * nothing is lost, for that request read what the first had written. session.release and
 * session.destroy reach the same state twice. lock.renew and kv.expire set the same lease again.
 * All others (a plain kv.set among them, for it could undo what another wrote in between, and
 * lock.release, whose second answer would deny the first) are sent once.
 */
static const char *const coat_resendable_methods[] = {"session.open", "session.commit", "session.release",
	"session.exists", "session.destroy", "kv.get", "kv.mget", "kv.exists", "kv.ttl", "kv.strlen", "kv.scan", "kv.wait",
	"kv.expire", "kv.persist", "lock.acquire", "lock.renew", "lock.info", "lock.list", "server.ping", "server.status"};

static bool coat_is_resendable(const char *method)
{
	for (size_t i = 0; i < sizeof(coat_resendable_methods) / sizeof(coat_resendable_methods[0]); i++) {
		if (strcmp(coat_resendable_methods[i], method) == 0) {
			return true;
		}
	}
	return false;
}

/* ---- building ---- */

/* Opens a frame in `out`: room for its length, which coat_frame_end fills in. */
static size_t coat_frame_begin(coat_buffer *out)
{
	size_t start = out->length;

	coat_buffer_write(out, "\0\0\0\0", 4);
	return start;
}

/* The size of the frame's body. A body beyond what the length can say is refused by the limit later. */
static size_t coat_frame_end(coat_buffer *out, size_t start)
{
	size_t size = out->length - start - 4;
	unsigned char *length = (unsigned char *)out->data + start;

	length[0] = (unsigned char)(size >> 24);
	length[1] = (unsigned char)(size >> 16);
	length[2] = (unsigned char)(size >> 8);
	length[3] = (unsigned char)size;
	return size;
}

void coat_batch_begin(coat_batch *batch, coat_connection *conn, zend_long connect_timeout_ms, zend_long timeout_ms)
{
	memset(batch, 0, sizeof(*batch));
	if (conn->next_id > (uint32_t)INT32_MAX) {
		conn->next_id = 1;
	}
	batch->conn = conn;
	batch->first_id = conn->next_id;
	batch->connect_timeout_ms = connect_timeout_ms;
	batch->timeout_ms = timeout_ms;
	batch->resendable = true;
	conn->out.length = 0;
	msgpack_packer_init(&batch->packer, &conn->out, coat_buffer_write);
}

static void coat_pack_string(msgpack_packer *packer, const char *text, size_t length)
{
	msgpack_pack_str(packer, length);
	msgpack_pack_str_body(packer, text, length);
}

static void coat_request_begin(coat_batch *batch, const char *method, size_t length)
{
	batch->frame_start = coat_frame_begin(&batch->conn->out);
	msgpack_pack_array(&batch->packer, 4);
	msgpack_pack_int(&batch->packer, 0);
	msgpack_pack_uint32(&batch->packer, batch->first_id + batch->count);
	coat_pack_string(&batch->packer, method, length);
	if (batch->count == 0) {
		snprintf(batch->method, sizeof(batch->method), "%s", method);
	}
	batch->resendable = batch->resendable && coat_is_resendable(method);
}

static void coat_request_end(coat_batch *batch)
{
	size_t size = coat_frame_end(&batch->conn->out, batch->frame_start);

	batch->largest = MAX(batch->largest, size);
	batch->count++;
	batch->conn->next_id++;
}

bool coat_batch_add(coat_batch *batch, const char *method, const coat_param *params, size_t count, coat_error *err)
{
	coat_request_begin(batch, method, strlen(method));
	if (!coat_pack_params(&batch->packer, params, count, err)) {
		return false;
	}
	coat_request_end(batch);
	return true;
}

bool coat_batch_add_array(coat_batch *batch, zend_string *method, HashTable *params, coat_error *err)
{
	coat_request_begin(batch, ZSTR_VAL(method), ZSTR_LEN(method));
	if (!coat_pack_array_as_params(&batch->packer, params, err)) {
		return false;
	}
	coat_request_end(batch);
	return true;
}

/* Packs a request of our own in front of the batch and returns its id. */
static uint32_t coat_preface_add(coat_connection *conn, const char *method, const coat_param *params, size_t count)
{
	uint32_t id = conn->next_id++;
	size_t start = coat_frame_begin(&conn->preface);
	msgpack_packer packer;
	coat_error none = COAT_ERROR_INIT;

	msgpack_packer_init(&packer, &conn->preface, coat_buffer_write);
	msgpack_pack_array(&packer, 4);
	msgpack_pack_int(&packer, 0);
	msgpack_pack_uint32(&packer, id);
	coat_pack_string(&packer, method, strlen(method));
	coat_pack_params(&packer, params, count, &none);
	coat_frame_end(&conn->preface, start);
	return id;
}

static uint32_t coat_preface_hello(coat_connection *conn)
{
	static const char client[] = "php-coatcheck/" PHP_COATCHECK_VERSION;
	coat_param params[] = {
		coat_param_int("version", COAT_PROTOCOL_VERSION),
		coat_param_bytes("client", client, sizeof(client) - 1),
		coat_param_int("pid", coat_pid()),
		coat_param_bytes("sapi", sapi_module.name, strlen(sapi_module.name)),
	};

	return coat_preface_add(conn, "hello", params, sizeof(params) / sizeof(params[0]));
}

/* Packs the overdue releases and returns how many there are. */
static uint32_t coat_preface_releases(coat_connection *conn)
{
	uint32_t count = 0;

	for (coat_overdue *overdue = conn->overdue; overdue; overdue = overdue->next, count++) {
		coat_grant grant = coat_overdue_grant(overdue);
		coat_param params[] = {
			coat_param_bytes("id", grant.id, grant.id_length),
			coat_param_bytes("prefix", grant.prefix, grant.prefix_length),
			coat_param_bytes("token", grant.token, grant.token_length),
		};

		overdue->request_id = coat_preface_add(conn, "session.release", params, sizeof(params) / sizeof(params[0]));
	}
	return count;
}

/* ---- exchanging ---- */

typedef struct {
	coat_batch *batch;
	coat_reply_function reply;
	void *context;
	coat_error *err;
	coat_outgoing outgoing;
	int64_t deadline_ms;
	int64_t bridge_until_ms; /* until when a daemon that starts or stops is waited for */
	uint32_t hello_id;       /* 0 when no hello is due */
	uint32_t releases_due;   /* answers to overdue releases */
	bool unavailable;        /* the daemon said so: nothing was carried out */
	coat_error said;         /* what it said, should no other daemon come */
	bool holds_lock;         /* the connection may hold a lock from before: it must not be closed */
} coat_run;

static bool coat_preface_is_due(const coat_run *run)
{
	return run->hello_id != 0 || run->releases_due > 0;
}

static bool coat_is_due(const coat_run *run)
{
	return coat_preface_is_due(run) || run->batch->answered < run->batch->count;
}

static bool coat_check_size(coat_batch *batch, coat_error *err)
{
	size_t limit = batch->conn->max_frame ? batch->conn->max_frame : COAT_DEFAULT_MAX_FRAME;

	if (batch->largest <= limit) {
		return true;
	}
	coat_error_set(err, COAT_ERROR_TOO_LARGE,
		"%s: the request of %zu bytes is above the daemon's limit of %zu bytes; nothing was sent", batch->method,
		batch->largest, limit);
	err->size = batch->largest;
	err->limit = limit;
	return false;
}

/* Is this a daemon that starts or stops, with time left to wait for the one that is coming? A batch is
 * not sent again when other requests of it may have been carried out. Whoever holds a lock stays with
 * the daemon that knows it: a stopping one still takes the commit. */
static bool coat_is_passing(coat_run *run, const msgpack_object *error)
{
	if (error->type == MSGPACK_OBJECT_NIL || run->batch->count > 1 || run->holds_lock ||
		coat_now_ms() >= run->bridge_until_ms) {
		return false;
	}
	coat_error_from_daemon(&run->said, run->batch->method, error);
	return run->said.kind == COAT_ERROR_UNAVAILABLE;
}

static bool coat_accept_hello(coat_run *run, const msgpack_object *error, const msgpack_object *result)
{
	coat_connection *conn = run->batch->conn;
	uint64_t max_frame;

	run->hello_id = 0;
	if (error->type != MSGPACK_OBJECT_NIL) {
		coat_error_from_daemon(run->err, "hello", error);
		return false;
	}
	if (!coat_map_uint(result, "max_frame", &max_frame) || max_frame == 0 || max_frame > UINT32_MAX) {
		coat_error_set(
			run->err, COAT_ERROR_PROTOCOL, "the answer to hello names no max_frame; is this a coatcheck daemon?");
		return false;
	}
	conn->max_frame = (uint32_t)max_frame;
	coat_map_text(result, "server", conn->server, sizeof(conn->server));
	return true;
}

/* Takes the answer to an overdue release. It is over whatever the answer is: a daemon that serves releases by itself
 * what its client forgot. One that does not serve now has done nothing. */
static bool coat_accept_release(coat_run *run, uint64_t id, const msgpack_object *error)
{
	coat_overdue **overdue = coat_overdue_find(&run->batch->conn->overdue, id);
	coat_error said = COAT_ERROR_INIT;

	if (!overdue) {
		return false;
	}
	run->releases_due--;
	(*overdue)->request_id = 0;
	if (error->type != MSGPACK_OBJECT_NIL) {
		coat_error_from_daemon(&said, "session.release", error);
	}
	if (said.kind != COAT_ERROR_UNAVAILABLE) {
		coat_overdue_remove(overdue);
	}
	return true;
}

/* Hands a reply to whom it belongs. The last one leaves the connection ready before it is handed
 * over, so that a bailout in there (memory limit) costs nothing. */
static bool coat_accept_reply(coat_run *run, uint64_t id, const msgpack_object *error, const msgpack_object *result)
{
	coat_batch *batch = run->batch;
	uint64_t index = id - batch->first_id;

	if (id < batch->first_id || index >= batch->count ||
		(batch->is_answered ? batch->is_answered[index] : batch->answered > 0)) {
		coat_error_set(run->err, COAT_ERROR_PROTOCOL, "%s: an answer came that nobody asked for (id %" PRIu64 ")",
			batch->method, id);
		return false;
	}
	if (batch->is_answered) {
		batch->is_answered[index] = true;
	}
	batch->answered++;
	if (!coat_is_due(run)) {
		batch->conn->mid_exchange = false;
	}
	run->reply(run->context, (uint32_t)index, error->type == MSGPACK_OBJECT_NIL ? NULL : error, result);
	return true;
}

static bool coat_accept_frame(coat_run *run, const char *frame, size_t length)
{
	coat_connection *conn = run->batch->conn;
	const msgpack_object *message = &conn->reply.data;
	const msgpack_object *parts;

	if (!coat_unpack(&conn->reply, frame, length) || message->type != MSGPACK_OBJECT_ARRAY ||
		message->via.array.size != 4 || message->via.array.ptr[0].type != MSGPACK_OBJECT_POSITIVE_INTEGER ||
		message->via.array.ptr[0].via.u64 != 1 || message->via.array.ptr[1].type != MSGPACK_OBJECT_POSITIVE_INTEGER) {
		coat_error_set(run->err, COAT_ERROR_PROTOCOL,
			"%s: what came back is not an answer; is this the socket of a coatcheck daemon?", run->batch->method);
		return false;
	}
	parts = message->via.array.ptr;
	if (parts[1].via.u64 == 0 && parts[2].type != MSGPACK_OBJECT_NIL) { /* our bytes were not understood */
		coat_error_from_daemon(run->err, run->batch->method, &parts[2]);
		return false;
	}
	if (run->releases_due > 0 && coat_accept_release(run, parts[1].via.u64, &parts[2])) {
		return true;
	}
	if (coat_is_passing(run, &parts[2])) {
		run->unavailable = true;
		return false;
	}
	if (run->hello_id != 0 && parts[1].via.u64 == run->hello_id) {
		return coat_accept_hello(run, &parts[2], &parts[3]);
	}
	return coat_accept_reply(run, parts[1].via.u64, &parts[2], &parts[3]);
}

/* Takes every frame that is complete, but none beyond the last that is due. */
static bool coat_accept_frames(coat_run *run)
{
	coat_connection *conn = run->batch->conn;
	size_t limit = (conn->max_frame ? conn->max_frame : COAT_DEFAULT_MAX_FRAME) + COAT_FRAME_SLACK;
	const char *frame = NULL;
	size_t length;
	bool accepted;

	while (coat_is_due(run)) {
		if (!coat_connection_next_frame(conn, limit, &frame, &length)) {
			coat_error_set(run->err, COAT_ERROR_PROTOCOL,
				"%s: the answer claims a length that cannot be; is this the socket of a coatcheck daemon?",
				run->batch->method);
			return false;
		}
		if (length == 0) {
			return true;
		}
		accepted = coat_accept_frame(run, frame, length);
		msgpack_unpacked_destroy(&conn->reply);
		if (!accepted) {
			return false;
		}
	}
	return true;
}

static void coat_describe_io(coat_run *run, coat_io io)
{
	coat_batch *batch = run->batch;
	const char *outcome = batch->resendable ? "" : "; whether it was carried out is unknown";

	if (io == COAT_IO_TIMEOUT) {
		coat_error_set(run->err, COAT_ERROR_TIMEOUT,
			"%s: no answer within " ZEND_LONG_FMT " ms; the daemon hangs or is overloaded%s", batch->method,
			batch->timeout_ms, outcome);
	} else if (io == COAT_IO_INTERRUPTED) {
		coat_error_set(run->err, COAT_ERROR_TIMEOUT, "%s: stopped waiting because max_execution_time is over%s",
			batch->method, outcome);
	} else {
		coat_error_set(run->err, COAT_ERROR_CONNECTION,
			"%s: the daemon closed the connection before it answered (was it stopped or killed?)%s", batch->method,
			outcome);
	}
}

/* Sends what is outgoing and receives until nothing is due any more: the preface's answers, or all of them. */
static coat_io coat_converse(coat_run *run, bool preface_only)
{
	coat_batch *batch = run->batch;

	while (coat_preface_is_due(run) || (!preface_only && batch->answered < batch->count)) {
		coat_io io = coat_connection_step(batch->conn, &run->outgoing, run->deadline_ms);

		if (io != COAT_IO_OK) {
			coat_describe_io(run, io);
			return io;
		}
		if (!coat_accept_frames(run)) {
			return COAT_IO_OK;
		}
	}
	return COAT_IO_OK;
}

static void coat_outgoing_set(coat_outgoing *outgoing, coat_buffer *first, coat_buffer *second)
{
	outgoing->parts[0] = (struct iovec){first->data, first->length};
	outgoing->parts[1] = (struct iovec){second ? second->data : NULL, second ? second->length : 0};
	outgoing->count = 2;
	outgoing->left = first->length + (second ? second->length : 0);
	outgoing->sent = 0;
}

/* One attempt over an open connection. COAT_IO_CLOSED means that another one may be worth it. */
static coat_io coat_attempt(coat_run *run, bool fresh)
{
	coat_batch *batch = run->batch;
	coat_connection *conn = batch->conn;
	coat_io io;

	conn->preface.length = 0;
	run->hello_id = fresh ? coat_preface_hello(conn) : 0;
	run->releases_due = coat_preface_releases(conn);
	if (fresh && batch->largest > COAT_HELLO_PIPELINE_MAX) {
		coat_outgoing_set(&run->outgoing, &conn->preface, NULL);
		io = coat_converse(run, true);
		if (io != COAT_IO_OK || run->err->kind != COAT_ERROR_NONE || run->unavailable) {
			run->outgoing.sent = 0; /* of the batch itself nothing was sent */
			return io;
		}
		conn->preface.length = 0;
	}
	run->outgoing.sent = 0;
	if (!coat_check_size(batch, run->err)) {
		return COAT_IO_OK;
	}
	conn->mid_exchange = true;
	conn->session_lock = conn->session_lock || batch->session_lock;
	conn->bound_lock = conn->bound_lock || batch->bound_lock;
	coat_outgoing_set(&run->outgoing, &conn->preface, &conn->out);
	return coat_converse(run, false);
}

/* One attempt, over the connection that is there or a new one. True when it is worth another: the
 * daemon starts or stops, or the connection broke for the first time and a second sending does no harm. */
static bool coat_attempt_is_worth_another(coat_run *run, bool *broke)
{
	coat_batch *batch = run->batch;
	coat_connection *conn = batch->conn;
	bool alive = coat_connection_alive(conn);
	coat_io io;

	if (!alive && !coat_connection_open(conn, batch->connect_timeout_ms, !batch->no_bridge, run->err)) {
		if (run->said.kind == COAT_ERROR_UNAVAILABLE) {
			*run->err = run->said; /* why there is no daemon now */
		}
		return false;
	}
	if (run->deadline_ms == 0) {
		run->deadline_ms = coat_now_ms() + batch->timeout_ms;
	}
	run->unavailable = false;
	run->holds_lock = conn->session_lock || conn->bound_lock; /* a new connection holds none */
	io = coat_attempt(run, !alive);
	if (run->unavailable) {
		coat_connection_close(conn);
		coat_connection_pause();
		return true;
	}
	if (io == COAT_IO_OK && (run->err->kind == COAT_ERROR_NONE || run->err->kind == COAT_ERROR_TOO_LARGE)) {
		return false;
	}
	batch->in_doubt = batch->in_doubt || run->outgoing.sent > 0;
	coat_connection_close(conn);
	if (io != COAT_IO_CLOSED || *broke || batch->answered > 0 || (run->outgoing.sent > 0 && !batch->resendable)) {
		return false;
	}
	*broke = !alive || run->outgoing.sent > 0; /* not when only the daemon before this one had gone */
	run->err->kind = COAT_ERROR_NONE;
	return true;
}

void coat_note_doubt(const coat_batch *batch, coat_error *err)
{
	err->outcome_unknown = batch->in_doubt && (err->kind == COAT_ERROR_CONNECTION || err->kind == COAT_ERROR_TIMEOUT ||
												  err->kind == COAT_ERROR_UNAVAILABLE);
}

bool coat_exchange(coat_batch *batch, coat_reply_function reply, void *context, coat_error *err)
{
	coat_run run = {.batch = batch, .reply = reply, .context = context, .err = err};
	bool broke = false;

	err->kind = COAT_ERROR_NONE;
	if (!batch->no_bridge) {
		run.bridge_until_ms = coat_now_ms() + batch->connect_timeout_ms;
	}
	while (coat_attempt_is_worth_another(&run, &broke)) {
		/* once more */
	}
	coat_note_doubt(batch, err);
	coat_buffer_trim(&batch->conn->out);
	if (batch->conn->in_taken == batch->conn->in.length) {
		batch->conn->in.length = 0;
		batch->conn->in_taken = 0;
		coat_buffer_trim(&batch->conn->in);
	}
	return err->kind == COAT_ERROR_NONE;
}

void coat_end_request(coat_connection *conn)
{
	/* [2, "server.end_request", {}] in its frame */
	static const char frame[] = "\0\0\0\x16\x93\x02\xb2server.end_request\x80";

	if (conn->session_lock || conn->bound_lock) {
		coat_connection_notify(conn, frame, sizeof(frame) - 1);
		conn->session_lock = false;
		conn->bound_lock = false;
	}
}
