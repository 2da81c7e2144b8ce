/*
 * The session save handler "coatcheck".
 *
 * PHP calls, in this order:
 *
 *     open -> [create_sid | validate_sid] -> read -> ... -> write | update_timestamp -> close
 *
 * with destroy instead of the write after session_destroy(), with no write at all after
 * session_abort() and read_and_close, and with open a second time but no close before it in
 * session_reset(). close may be missing altogether (an exception inside a SessionHandler subclass).
 *
 * The daemon is asked twice in a request that locks: read sends session.open, which takes the lock
 * and brings the data, and the write sends session.commit, which stores and releases in one step.
 *
 * What this file promises:
 *
 *  - A session that could not be read is never an empty one: read fails, with a warning that says why.
 *  - Each acquisition has a token of its own, 128 random bits. It is kept from before it is sent
 *    until its release is confirmed, so close releases a grant of which we never heard.
 *  - A write carries the fence of its read. What the daemon refuses was not stored; the warning
 *    gives the reason, and no lock is left.
 *  - Only the process that took a lock releases it. A forked child neither releases nor stores.
 *  - Every function may be called again: a second write or close does no harm.
 *
 * The handler reads nothing of PS(): all it needs is in its arguments and in mod_data. mod_data is
 * one struct per thread, outside the request heap, so that a close that never came costs no lock
 * (coat_end_request) and no memory (coat_session_forget).
 */

#include "session.h"
#include "session_daemon.h"
#include "php_coatcheck.h"
#include "php_coatcheck_compat.h"

/* How many fresh ids are tried. A second try means a broken random source. */
#define COAT_SID_ATTEMPTS 3

/* ---- warnings ---- */

/* A session id is a credential: six characters of it are enough to find it in a log. */
static void coat_warn(const coat_session *session, zend_string *id, const char *what, const char *why)
{
	php_error_docref(NULL, E_WARNING, "coatcheck at %s: session %.6s\xE2\x80\xA6 %s: %s", session->settings.socket,
		ZSTR_VAL(id), what, why);
}

/* The reasons of a refused write, for the reader of the log. */
static const char *coat_refusal(const coat_error *err)
{
	static const struct {
		const char *reason;
		const char *text;
	} texts[] = {
		{"superseded", "refused as superseded: the lease of this request ran out and the lock was granted to another "
					   "request since; nothing was overwritten"},
		{"destroyed",
			"refused as destroyed: another request destroyed the session after this one had read it; it stays "
			"destroyed"},
		{"forgotten",
			"refused as forgotten: the lock of this request ended so long ago that the daemon no longer knows "
			"who came after; nothing was overwritten"},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (err->kind == COAT_ERROR_REFUSED && strcmp(texts[i].reason, err->reason) == 0) {
			return texts[i].text;
		}
	}
	return err->message;
}

/* A step that failed. Without an answer nobody knows whether it was done. */
static void coat_warn_failed(const coat_session *session, zend_string *id, const char *step, const coat_error *err)
{
	char what[64];

	snprintf(
		what, sizeof(what), err->outcome_unknown ? "is perhaps not %s (the outcome is unknown)" : "is not %s", step);
	coat_warn(session, id, what, coat_refusal(err));
}

static void coat_warn_busy(coat_session *session, zend_string *id, const coat_holder *holder, const char *consequence)
{
	char why[COAT_SCRIPT_MAX + 200];

	if (holder->known) {
		snprintf(why, sizeof(why), "pid %" PRIu64 " (%s, %s) has held the lock for %.1f s; %s", holder->pid,
			holder->sapi[0] ? holder->sapi : "unknown SAPI", holder->script[0] ? holder->script : "unknown script",
			(double)holder->held_ms / 1000, consequence);
	} else {
		/* the daemon knows of no holder when the lock has just come free */
		snprintf(why, sizeof(why), "others have waited for the lock longer and get it first; %s", consequence);
	}
	php_error_docref(NULL, E_WARNING, "coatcheck at %s: session %.6s\xE2\x80\xA6 is busy after %.1f s of waiting: %s",
		session->settings.socket, ZSTR_VAL(id), (double)session->waited_ms / 1000, why);
}

/* ---- ids ---- */

/* The ids of PHP's own files handler. */
static bool coat_id_is_valid(zend_string *id)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789,-";

	return ZSTR_LEN(id) >= 1 && ZSTR_LEN(id) <= COAT_ID_MAX && strspn(ZSTR_VAL(id), allowed) == ZSTR_LEN(id);
}

static bool coat_check_id(coat_session *session, zend_string *id)
{
	if (coat_id_is_valid(id)) {
		return true;
	}
	php_error_docref(NULL, E_WARNING,
		"coatcheck at %s: the session id is empty, longer than %d characters or has characters other than A-Z, a-z, "
		"0-9, \"-\" and \",\"; nothing was sent",
		session->settings.socket, COAT_ID_MAX);
	return false;
}

/* ---- open and close ---- */

static void coat_drop_ahead(coat_session *session)
{
	if (session->is_ahead && session->ahead.data) {
		zend_string_release(session->ahead.data);
	}
	session->is_ahead = false;
}

static void coat_session_free(coat_session *session)
{
	coat_drop_ahead(session);
	coat_give_up(session);
	if (COAT_G(session) == session) {
		COAT_G(session) = NULL;
	}
	pefree(session, 1);
}

void coat_session_forget(void)
{
	if (COAT_G(session)) {
		coat_session_free(COAT_G(session));
	}
}

PS_CLOSE_FUNC(coatcheck)
{
	coat_session *session = PS_GET_MOD_DATA();

	if (session) {
		coat_release(session);
		coat_session_free(session);
	}
	PS_SET_MOD_DATA(NULL);
	return SUCCESS;
}

PS_OPEN_FUNC(coatcheck)
{
	coat_session *session;
	char problem[256];

	/* session_reset() opens again without a close: whatever is open goes first, or we would wait for our own lock. */
	PS_SET_MOD_DATA(COAT_G(session));
	ps_close_coatcheck(mod_data);

	session = pecalloc(1, sizeof(*session), 1);
	session->pid = coat_pid();
	if (!coat_settings_load(&session->settings, COAT_SAVE_PATH(save_path), problem, sizeof(problem))) {
		pefree(session, 1);
		php_error_docref(NULL, E_WARNING, "coatcheck: session.save_path: %s", problem);
		return FAILURE;
	}
	COAT_G(session) = session;
	PS_SET_MOD_DATA(session);
	return SUCCESS;
}

/* ---- read ---- */

static void coat_warn_unlocked(coat_session *session, zend_string *id, const coat_holder *holder)
{
	if (session->settings.lock_failure == COAT_READONLY) {
		coat_warn_busy(session, id, holder,
			"this request goes on without the lock and its changes will be dropped (coatcheck.lock_failure=readonly)");
	} else {
		coat_warn_busy(session, id, holder,
			"this request goes on without the lock, and the last of the two to write wins "
			"(coatcheck.lock_failure=unlocked)");
	}
}

static void coat_warn_not_read(coat_session *session, zend_string *id, const coat_open *open)
{
	if (open->err.kind == COAT_ERROR_BUSY) {
		coat_warn_busy(session, id, &open->holder, "the session is not started (coatcheck.lock_failure=fail)");
	} else {
		coat_warn(session, id, "is not read", open->err.message);
	}
}

PS_READ_FUNC(coatcheck)
{
	coat_session *session = PS_GET_MOD_DATA();
	coat_open open;

	if (!session || !coat_check_id(session, key)) {
		return FAILURE;
	}
	if (session->is_ahead && (session->ahead.err.kind != COAT_ERROR_NONE || coat_is_current(session, key))) {
		open = session->ahead;
		session->is_ahead = false;
	} else {
		coat_drop_ahead(session);
		coat_open_session(session, key, &open);
	}
	if (open.err.kind != COAT_ERROR_NONE) {
		coat_warn_not_read(session, key, &open);
		return FAILURE;
	}
	*val = open.data;
	if (session->settings.session_locking && !session->locked) {
		coat_warn_unlocked(session, key, &open.holder);
	}
	return SUCCESS;
}

/* ---- write ---- */

static zend_result coat_write(coat_session *session, zend_string *id, zend_string *data, zend_long maxlifetime)
{
	coat_commit commit;

	if (coat_send_commit(session, data, maxlifetime, &commit) && commit.stored) {
		return SUCCESS;
	}
	if (commit.err.kind == COAT_ERROR_NONE) {
		coat_warn(session, id, "is not written", "the daemon did not store it");
	} else {
		coat_warn_failed(session, id, "written", &commit.err);
	}
	return FAILURE;
}

/* A write through SessionHandler for an id that nobody read: its fence is asked for first, without a
 * lock, and beside the current session, which keeps its own. */
static zend_result coat_write_other(
	const coat_session *session, zend_string *id, zend_string *data, zend_long maxlifetime)
{
	coat_session other = {.settings = session->settings, .pid = session->pid};
	coat_open open;

	coat_set_current(&other, id);
	if (!coat_send_open(&other, &open, false)) {
		coat_warn(&other, id, "is not written", open.err.message);
		return FAILURE;
	}
	zend_string_release(open.data);
	return coat_write(&other, id, data, maxlifetime);
}

/* May this process, in this state, write this session? If not, a warning says why. */
static bool coat_may_write(coat_session *session, zend_string *id)
{
	if (!coat_check_id(session, id)) {
		return false;
	}
	if (session->pid != coat_pid()) {
		coat_warn(session, id, "is not written", "it belongs to the process that forked this one");
		return false;
	}
	if (coat_is_current(session, id) && !session->is_read) {
		coat_warn(session, id, "is not written", "reading it failed before");
		return false;
	}
	return true;
}

static bool coat_is_readonly(const coat_session *session)
{
	return session->settings.session_locking && !session->locked && session->settings.lock_failure == COAT_READONLY;
}

PS_WRITE_FUNC(coatcheck)
{
	coat_session *session = PS_GET_MOD_DATA();

	if (!session || !coat_may_write(session, key)) {
		return FAILURE;
	}
	if (!coat_is_current(session, key)) {
		return coat_write_other(session, key, val, maxlifetime);
	}
	if (coat_is_readonly(session)) {
		coat_warn(session, key, "is not written",
			"another request holds its lock, and the changes of this one are dropped "
			"(coatcheck.lock_failure=readonly)");
		return FAILURE;
	}
	return coat_write(session, key, val, maxlifetime);
}

PS_UPDATE_TIMESTAMP_FUNC(coatcheck)
{
	coat_session *session = PS_GET_MOD_DATA();
	coat_commit commit;

	if (session && session->pid != coat_pid()) {
		return SUCCESS; /* unchanged: the parent keeps it alive */
	}
	if (!session || !coat_may_write(session, key)) {
		return FAILURE;
	}
	if (!coat_is_current(session, key)) {
		return coat_write_other(session, key, val, maxlifetime);
	}
	if (!coat_send_commit(session, NULL, maxlifetime, &commit)) {
		coat_warn_failed(session, key, "extended", &commit.err);
		return FAILURE;
	}
	if (commit.stored || coat_is_readonly(session)) {
		return SUCCESS;
	}
	return coat_write(session, key, val, maxlifetime);
}

/* ---- destroy, ids, gc ---- */

PS_DESTROY_FUNC(coatcheck)
{
	coat_session *session = PS_GET_MOD_DATA();
	coat_flag_answer answer;
	bool with_token;

	if (!session || !coat_check_id(session, key)) {
		return FAILURE;
	}
	with_token = session->token_out && session->pid == coat_pid() && coat_is_current(session, key);
	if (!coat_ask_flag(session, "session.destroy", ZSTR_VAL(key), ZSTR_LEN(key), with_token, &answer)) {
		coat_after_failure(session, &answer.err);
		coat_warn_failed(session, key, "destroyed", &answer.err);
		return FAILURE;
	}
	if (with_token) {
		coat_lock_is_over(session);
	}
	return SUCCESS;
}

/* The daemon ends sessions by itself, on time. */
PS_GC_FUNC(coatcheck)
{
	*nrdels = 0;
	return 0;
}

/*
 * When the daemon cannot be asked, the id is taken as it is and the trouble is kept for read, which
 * follows and fails with it. The other answer would be worse: in strict mode a "no" makes PHP send a
 * new cookie, so that a short outage would log everybody out.
 */
static bool coat_exists(coat_session *session, zend_string *id, bool if_unknown)
{
	coat_flag_answer answer;

	if (coat_ask_flag(session, "session.exists", ZSTR_VAL(id), ZSTR_LEN(id), false, &answer)) {
		return answer.flag;
	}
	coat_drop_ahead(session);
	session->is_ahead = true;
	session->ahead = (coat_open){.session = session, .err = answer.err};
	return if_unknown;
}

/* Asks whether the session exists by opening it, since read follows at once: strict mode then costs
 * no further round trip. A lock on an id that no session has is given back. */
static bool coat_exists_ahead(coat_session *session, zend_string *id)
{
	session->is_ahead = true;
	if (!coat_open_session(session, id, &session->ahead) || session->ahead.found) {
		return true;
	}
	coat_drop_ahead(session);
	coat_release(session);
	session->id_length = 0;
	session->is_read = false;
	return false;
}

PS_VALIDATE_SID_FUNC(coatcheck)
{
	coat_session *session = PS_GET_MOD_DATA();
	bool exists;

	if (!session || !coat_id_is_valid(key) || strcmp(session->fresh_id, ZSTR_VAL(key)) == 0) {
		return FAILURE;
	}
	if (session->is_ahead && coat_is_current(session, key)) {
		return SUCCESS;
	}
	/* with a session open, PHP asks for an id that it does not mean to read */
	exists = session->id_length > 0 ? coat_exists(session, key, true) : coat_exists_ahead(session, key);
	return exists ? SUCCESS : FAILURE;
}

PS_CREATE_SID_FUNC(coatcheck)
{
	coat_session *session = PS_GET_MOD_DATA();

	for (int attempt = 0; attempt < COAT_SID_ATTEMPTS; attempt++) {
		zend_string *id = php_session_create_id(mod_data);

		/* SessionHandler::create_sid() comes here without an open, too */
		if (!id || !session) {
			return id;
		}
		if (!coat_exists(session, id, false)) {
			snprintf(session->fresh_id, sizeof(session->fresh_id), "%s", ZSTR_VAL(id));
			return id;
		}
		zend_string_release(id);
	}
	return NULL;
}

const ps_module coat_session_module = {PS_MOD_UPDATE_TIMESTAMP(coatcheck)};

/* ---- coatcheck_session_info() ---- */

void coat_session_info(zval *return_value)
{
	const coat_session *session = COAT_G(session);

	if (!session || !session->is_read) {
		RETURN_NULL();
	}
	array_init(return_value);
	add_assoc_bool(return_value, "locked", session->locked);
	add_assoc_stringl(return_value, "token_prefix", (char *)session->token, session->locked ? 6 : 0);
	add_assoc_long(return_value, "fence", (zend_long)session->fence);
	add_assoc_long(return_value, "waited_ms", (zend_long)session->waited_ms);
}
