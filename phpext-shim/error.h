/*
 * What went wrong, as a value: filled in where it is noticed, shown where the caller is known.
 *
 * The session handler turns a coat_error into a warning, the functions turn it into an exception.
 * Nothing here calls into the engine's error handling, so a coat_error may be filled in the middle
 * of an exchange with the daemon. The message names the cause and what the reader can do; it does
 * not name the socket, which whoever shows it adds.
 */

#ifndef COATCHECK_ERROR_H
#define COATCHECK_ERROR_H

#include "php.h"
#include <msgpack.h>

typedef enum {
	COAT_ERROR_NONE,
	COAT_ERROR_CONNECTION,
	COAT_ERROR_TIMEOUT,
	COAT_ERROR_BUSY,
	COAT_ERROR_REFUSED,
	COAT_ERROR_UNREACHABLE,
	COAT_ERROR_TOO_LARGE,
	COAT_ERROR_PROTOCOL,
	COAT_ERROR_UNAVAILABLE,
	COAT_ERROR_INTERNAL,
	COAT_ERROR_ARGUMENT, /* the caller's value cannot be sent: nothing was */
} coat_error_kind;

typedef struct {
	coat_error_kind kind;
	char reason[32];   /* details.reason of the daemon, or empty */
	char message[640]; /* a sentence for the reader */
	size_t size;       /* of a request that is too large, and its limit, in bytes */
	size_t limit;
	bool outcome_unknown; /* the request went out and no answer came: perhaps it was carried out */
	zval details;         /* the daemon's details as an array, or undefined; see coat_error_keep_details */
} coat_error;

#define COAT_ERROR_INIT         \
	{                           \
		.kind = COAT_ERROR_NONE \
	}

/* Fills err from a printf format. An earlier content is overwritten. */
void coat_error_set(coat_error *err, coat_error_kind kind, const char *format, ...) ZEND_ATTRIBUTE_FORMAT(printf, 3, 4);

/* Fills err from the error of a response, which is [code, message, details]. */
void coat_error_from_daemon(coat_error *err, const char *method, const msgpack_object *error);

/* Keeps the daemon's details as a PHP array too. The caller owns err->details then. */
void coat_error_keep_details(coat_error *err, const msgpack_object *error);

#endif
