/*
 * What the save handler says to the daemon: session.open, session.commit and the three short
 * questions, with the token and what is known of it.
 *
 * The token of an acquisition is made here, kept from before it is sent, and forgotten when its
 * release is confirmed or when the daemon said that it was not granted. A token of which we hear neither
 * is given up at the end, and its release is overdue (overdue.h).
 *
 * Nothing here warns: errors are values, and session.c finds the words.
 */

#ifndef COATCHECK_SESSION_DAEMON_H
#define COATCHECK_SESSION_DAEMON_H

#include "php.h"
#include "client.h"
#include "settings.h"

#define COAT_ID_MAX 256
#define COAT_TOKEN_LENGTH 32
#define COAT_SCRIPT_MAX 255

typedef struct coat_session coat_session;

/* Whoever has the lock that we wanted. */
typedef struct {
	bool known;
	uint64_t pid;
	uint64_t held_ms;
	char sapi[32];
	char script[COAT_SCRIPT_MAX + 1];
} coat_holder;

/* What session.open brought. */
typedef struct {
	coat_session *session;
	bool found;
	zend_string *data; /* on the request heap */
	coat_error err;
	coat_holder holder;
} coat_open;

/* What session.commit brought. */
typedef struct {
	coat_error err;
	bool stored;
} coat_commit;

/* What session.exists, session.destroy and session.release answer. */
typedef struct {
	const char *method;
	coat_error err;
	bool flag;
} coat_flag_answer;

/* The session between PHP's open and close: mod_data. */
struct coat_session {
	coat_settings settings;
	pid_t pid;                /* the process that opened */
	char id[COAT_ID_MAX + 1]; /* of the session that was read, or was tried to be read */
	size_t id_length;
	char fresh_id[COAT_ID_MAX + 1]; /* the id that create_sid made last: no session has it */
	char token[COAT_TOKEN_LENGTH + 1];
	bool token_out; /* the token was sent and its release is not confirmed */
	bool is_read;   /* session.open was answered: the fence is known */
	bool locked;
	uint64_t fence;
	uint64_t waited_ms;
	bool is_ahead; /* validate_sid or create_sid has asked already, and read is to take this answer: */
	coat_open ahead;
};

bool coat_is_current(const coat_session *session, zend_string *id);

/* Makes `id` the current session. The token of another one is given back first. */
void coat_set_current(coat_session *session, zend_string *id);

/* Opens `id` as the current session, with a token of its own if the settings ask for a lock. False with
 * open->err set when it failed. Without an error open->data is the caller's. */
bool coat_open_session(coat_session *session, zend_string *id, coat_open *open);

/* Opens the current session with or without the lock. */
bool coat_send_open(coat_session *session, coat_open *open, bool lock);

/* Stores data, or only extends the life when data is NULL, and releases the lock. */
bool coat_send_commit(coat_session *session, zend_string *data, zend_long maxlifetime, coat_commit *commit);

/* session.exists, session.destroy and session.release: id and perhaps the token in, a boolean out. */
bool coat_ask_flag(coat_session *session, const char *method, const char *id, size_t id_length, bool with_token,
	coat_flag_answer *answer);

/* Releases what the token may hold. Nobody is told of a failure: the page has its data, and the release is overdue. */
void coat_release(coat_session *session);

/* The token no longer stands for anything in the daemon. */
void coat_lock_is_over(coat_session *session);

/* Stops using the token. What it may still hold is released as soon as the daemon can be asked. */
void coat_give_up(coat_session *session);

/* After a time-out or nonsense the token is given up: asking once more would cost another time-out. */
void coat_after_failure(coat_session *session, const coat_error *err);

#endif
