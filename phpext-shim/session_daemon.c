#include "session_daemon.h"
#include "php_coatcheck.h"
#include "php_coatcheck_compat.h"
#include "SAPI.h"

/* For a session.gc_maxlifetime of 0 or less, which would mean a session that ends before it is read:
 * PHP's own default instead. */
#define COAT_DEFAULT_LIFETIME_S 1440
#define COAT_MAX_LIFETIME_S (100 * 365 * 86400LL)

/* ---- what all requests share ---- */

bool coat_is_current(const coat_session *session, zend_string *id)
{
	return session->id_length == ZSTR_LEN(id) && memcmp(session->id, ZSTR_VAL(id), session->id_length) == 0;
}

static coat_connection *coat_session_connection(const coat_session *session)
{
	return coat_connection_for(session->settings.socket);
}

static coat_param coat_prefix_param(const coat_session *session)
{
	coat_param prefix = coat_param_bytes("prefix", session->settings.prefix, session->settings.prefix_length);

	prefix.type = session->settings.prefix_length > 0 ? COAT_PARAM_STRING : COAT_PARAM_ABSENT;
	return prefix;
}

/* The token, or nothing when `present` is false. */
static coat_param coat_token_param(const coat_session *session, bool present)
{
	coat_param token = coat_param_bytes("token", session->token, COAT_TOKEN_LENGTH);

	token.type = present ? COAT_PARAM_STRING : COAT_PARAM_ABSENT;
	return token;
}

static void coat_session_batch(const coat_session *session, coat_batch *batch, zend_long extra_wait_ms)
{
	coat_batch_begin(batch, coat_session_connection(session), session->settings.connect_timeout_ms,
		session->settings.timeout_ms + extra_wait_ms);
}

void coat_lock_is_over(coat_session *session)
{
	if (session->token_out) {
		session->token_out = false;
		coat_session_connection(session)->session_lock = false;
	}
}

void coat_give_up(coat_session *session)
{
	coat_grant grant = {
		.id = session->id,
		.id_length = session->id_length,
		.prefix = session->settings.prefix,
		.prefix_length = session->settings.prefix_length,
		.token = session->token,
		.token_length = COAT_TOKEN_LENGTH,
	};

	if (session->token_out && session->pid == coat_pid()) {
		coat_overdue_keep(&coat_session_connection(session)->overdue, &grant);
		session->token_out = false;
	}
}

void coat_after_failure(coat_session *session, const coat_error *err)
{
	if (err->kind == COAT_ERROR_TIMEOUT || err->kind == COAT_ERROR_PROTOCOL) {
		coat_give_up(session);
	}
}

static void coat_take_flag(void *context, uint32_t index, const msgpack_object *error, const msgpack_object *result)
{
	coat_flag_answer *answer = context;

	if (error) {
		coat_error_from_daemon(&answer->err, answer->method, error);
	} else if (result->type != MSGPACK_OBJECT_BOOLEAN) {
		coat_error_set(&answer->err, COAT_ERROR_PROTOCOL, "%s: the answer is not a boolean", answer->method);
	} else {
		answer->flag = result->via.boolean;
	}
}

bool coat_ask_flag(coat_session *session, const char *method, const char *id, size_t id_length, bool with_token,
	coat_flag_answer *answer)
{
	coat_param params[] = {
		coat_param_bytes("id", id, id_length),
		coat_prefix_param(session),
		coat_token_param(session, with_token),
	};
	coat_error err = COAT_ERROR_INIT;
	coat_batch batch;

	memset(answer, 0, sizeof(*answer));
	answer->method = method;
	coat_session_batch(session, &batch, 0);
	batch.no_bridge = with_token; /* what carries a token only tidies up */
	if (!coat_batch_add(&batch, method, params, sizeof(params) / sizeof(params[0]), &err) ||
		!coat_exchange(&batch, coat_take_flag, answer, &err)) {
		answer->err = err;
	}
	coat_note_doubt(&batch, &answer->err);
	return answer->err.kind == COAT_ERROR_NONE;
}

void coat_release(coat_session *session)
{
	coat_flag_answer answer;

	if (!session->token_out || session->pid != coat_pid()) {
		return;
	}
	if (coat_ask_flag(session, "session.release", session->id, session->id_length, true, &answer)) {
		coat_lock_is_over(session);
	}
	coat_give_up(session);
}

/* ---- session.open ---- */

static void coat_holder_read(coat_holder *holder, const msgpack_object *map)
{
	const msgpack_object *found = coat_map_find(map, "holder");

	memset(holder, 0, sizeof(*holder));
	holder->known = coat_map_uint(found, "pid", &holder->pid);
	coat_map_uint(found, "held_ms", &holder->held_ms);
	coat_map_text(found, "sapi", holder->sapi, sizeof(holder->sapi));
	coat_map_text(found, "script", holder->script, sizeof(holder->script));
}

static void coat_take_open_error(coat_open *open, const msgpack_object *error)
{
	const msgpack_object *details =
		error->type == MSGPACK_OBJECT_ARRAY && error->via.array.size == 3 ? &error->via.array.ptr[2] : NULL;

	coat_error_from_daemon(&open->err, "session.open", error);
	coat_holder_read(&open->holder, details);
	coat_map_uint(details, "waited_ms", &open->session->waited_ms);
}

static void coat_take_open(void *context, uint32_t index, const msgpack_object *error, const msgpack_object *result)
{
	coat_open *open = context;
	coat_session *session = open->session;
	const char *data = "";
	size_t length = 0;

	if (error) {
		coat_take_open_error(open, error);
		return;
	}
	session->locked = false;
	session->waited_ms = 0;
	coat_map_uint(result, "waited_ms", &session->waited_ms);
	coat_holder_read(&open->holder, result);
	if (!coat_map_bool(result, "locked", &session->locked) || !coat_map_bool(result, "found", &open->found) ||
		!coat_map_uint(result, "fence", &session->fence) ||
		(open->found && !coat_map_bytes(result, "data", &data, &length))) {
		coat_error_set(&open->err, COAT_ERROR_PROTOCOL, "session.open: the answer lacks locked, found, fence or data");
		return;
	}
	if (!session->locked) {
		coat_lock_is_over(session);
	}
	session->is_read = true;
	open->data = length > 0 ? zend_string_init(data, length, 0) : ZSTR_EMPTY_ALLOC(); /* may bail out */
}

/* Begins a new acquisition. False when there is no randomness to be had. */
static bool coat_new_token(coat_session *session)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char random[COAT_TOKEN_LENGTH / 2];

	if (php_random_bytes_silent(random, sizeof(random)) == FAILURE) {
		return false;
	}
	for (size_t i = 0; i < sizeof(random); i++) {
		session->token[2 * i] = digits[random[i] >> 4];
		session->token[2 * i + 1] = digits[random[i] & 0x0f];
	}
	return true;
}

/* Does the error of an open that was sent once, or could not be sent, mean that no lock was granted? An owner that did
 * not answer may have granted it, and a fault may have come after the grant. */
static bool coat_denies_grant(const coat_error *err)
{
	return err->kind != COAT_ERROR_NONE && err->kind != COAT_ERROR_UNREACHABLE && err->kind != COAT_ERROR_INTERNAL &&
	       err->kind != COAT_ERROR_PROTOCOL;
}

bool coat_send_open(coat_session *session, coat_open *open, bool lock)
{
	const coat_settings *settings = &session->settings;
	const char *script = SG(request_info).path_translated ? SG(request_info).path_translated : "";
	const char *policy = coat_lock_failure_name(settings->lock_failure);
	coat_param params[] = {
		coat_param_bytes("id", session->id, session->id_length),
		coat_prefix_param(session),
		coat_token_param(session, lock),
		coat_param_int_if("lease_ms", settings->lock_lease_ms, lock),
		coat_param_int_if("wait_ms", settings->lock_wait_ms, lock),
		lock ? coat_param_bytes("policy", policy, strlen(policy)) : coat_param_flag("policy", false),
		coat_param_bytes("script", script, MIN(strlen(script), COAT_SCRIPT_MAX)),
	};
	coat_error err = COAT_ERROR_INIT;
	coat_batch batch;
	bool was_out = session->token_out;

	memset(open, 0, sizeof(*open));
	open->session = session;
	session->is_read = false;
	session->locked = false;
	session->token_out = session->token_out || lock;
	coat_session_batch(session, &batch, lock ? settings->lock_wait_ms : 0);
	batch.session_lock = lock;
	if (!coat_batch_add(&batch, "session.open", params, sizeof(params) / sizeof(params[0]), &err) ||
		!coat_exchange(&batch, coat_take_open, open, &err)) {
		open->err = err;
		coat_after_failure(session, &err);
	}
	coat_note_doubt(&batch, &open->err);
	if (!was_out && !batch.in_doubt && coat_denies_grant(&open->err)) {
		coat_lock_is_over(session);
	}
	return open->err.kind == COAT_ERROR_NONE;
}

void coat_set_current(coat_session *session, zend_string *id)
{
	if (!coat_is_current(session, id)) {
		coat_release(session);
	}
	memcpy(session->id, ZSTR_VAL(id), ZSTR_LEN(id));
	session->id_length = ZSTR_LEN(id);
	session->is_read = false;
}

bool coat_open_session(coat_session *session, zend_string *id, coat_open *open)
{
	bool lock = session->settings.session_locking;

	coat_set_current(session, id);
	if (lock && !session->token_out && !coat_new_token(session)) {
		memset(open, 0, sizeof(*open));
		coat_error_set(&open->err, COAT_ERROR_INTERNAL, "the system has no random bytes for a lock token");
		return false;
	}
	return coat_send_open(session, open, lock);
}

/* ---- session.commit ---- */

static void coat_take_commit(void *context, uint32_t index, const msgpack_object *error, const msgpack_object *result)
{
	coat_commit *commit = context;

	if (error) {
		coat_error_from_daemon(&commit->err, "session.commit", error);
	} else if (!coat_map_bool(result, "stored", &commit->stored)) {
		coat_error_set(
			&commit->err, COAT_ERROR_PROTOCOL, "session.commit: the answer does not say whether it was stored");
	}
}

static int64_t coat_ttl_ms(zend_long maxlifetime)
{
	return (maxlifetime > 0 ? MIN(maxlifetime, COAT_MAX_LIFETIME_S) : COAT_DEFAULT_LIFETIME_S) * 1000LL;
}

bool coat_send_commit(coat_session *session, zend_string *data, zend_long maxlifetime, coat_commit *commit)
{
	coat_param params[] = {
		coat_param_bytes("id", session->id, session->id_length),
		coat_prefix_param(session),
		coat_token_param(session, session->locked),
		coat_param_int("fence", (int64_t)session->fence),
		coat_param_string("data", data),
		coat_param_flag("touch", data == NULL),
		coat_param_int("ttl_ms", coat_ttl_ms(maxlifetime)),
		coat_param_flag("release", session->locked),
	};
	coat_error err = COAT_ERROR_INIT;
	coat_batch batch;

	memset(commit, 0, sizeof(*commit));
	coat_session_batch(session, &batch, 0);
	if (!coat_batch_add(&batch, "session.commit", params, sizeof(params) / sizeof(params[0]), &err) ||
		!coat_exchange(&batch, coat_take_commit, commit, &err)) {
		commit->err = err;
		coat_after_failure(session, &err);
		return false;
	}
	coat_note_doubt(&batch, &commit->err);
	/* a refusal releases as well; a touch that found nothing does not */
	if (commit->err.kind == COAT_ERROR_NONE ? commit->stored : commit->err.kind == COAT_ERROR_REFUSED) {
		coat_lock_is_over(session);
	}
	return commit->err.kind == COAT_ERROR_NONE;
}
