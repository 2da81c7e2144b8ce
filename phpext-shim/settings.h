/*
 * The settings of the extension: how their texts are read, and what a session.save_path may carry.
 *
 * A save_path is empty (use coatcheck.socket), the path of a socket, or a URL
 * unix:///path?name=value&... whose options override the ini settings of the same name for this
 * session; without a path, unix://?name=value, it is coatcheck.socket again. A path that is a directory is one that was
 * left behind for the files handler (Debian compiles one in) and counts as empty.
 */

#ifndef COATCHECK_SETTINGS_H
#define COATCHECK_SETTINGS_H

#include "php.h"

/* What a session does when its lock cannot be had in time. */
typedef enum {
	COAT_UNLOCKED, /* warn, go on with the data, write without the lock */
	COAT_FAIL,     /* warn, session_start() is false */
	COAT_READONLY, /* warn, go on with the data, drop writes */
} coat_lock_failure;

#define COAT_SOCKET_MAX 107 /* sun_path without its terminator */
#define COAT_PREFIX_MAX 255

typedef struct {
	char socket[COAT_SOCKET_MAX + 1];
	char prefix[COAT_PREFIX_MAX + 1];
	size_t prefix_length;
	zend_long connect_timeout_ms;
	zend_long timeout_ms;
	zend_long lock_lease_ms;
	zend_long lock_wait_ms;
	coat_lock_failure lock_failure;
	bool session_locking;
} coat_settings;

/* Readers of one text each: false when it is not a valid value. */
bool coat_parse_flag(const char *text, size_t length, bool *flag);
bool coat_parse_milliseconds(const char *text, size_t length, zend_long *ms);
bool coat_parse_wait(const char *text, size_t length, zend_long *ms);  /* seconds, 0 allowed */
bool coat_parse_lease(const char *text, size_t length, zend_long *ms); /* seconds, above 0 */
bool coat_parse_lock_failure(const char *text, size_t length, coat_lock_failure *failure);

/* The name as it is written in the settings, which is also the policy of session.open. */
const char *coat_lock_failure_name(coat_lock_failure failure);

/* Copies the path of a socket, with or without unix://, into `socket`. */
bool coat_parse_socket(const char *text, size_t length, char *socket);

/* Fills settings from ini and save_path. On failure `problem` says which option or value is wrong. */
bool coat_settings_load(coat_settings *settings, const char *save_path, char *problem, size_t problem_size);

#endif
