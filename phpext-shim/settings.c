#include "settings.h"
#include "php_coatcheck.h"
#include "ext/standard/url.h"
#include "zend_strtod.h"
#include <sys/stat.h>

#define COAT_MAX_SECONDS 86400.0

/* ---- single values ---- */

bool coat_parse_milliseconds(const char *text, size_t length, zend_long *ms)
{
	zend_long number;

	if (is_numeric_string(text, length, &number, NULL, false) != IS_LONG || number < 1 ||
		number > (zend_long)(COAT_MAX_SECONDS * 1000)) {
		return false;
	}
	*ms = number;
	return true;
}

static bool coat_parse_seconds(const char *text, size_t length, zend_long *ms)
{
	zend_long whole;
	double seconds;
	zend_uchar type = is_numeric_string(text, length, &whole, &seconds, false);

	if (type == IS_LONG) {
		seconds = (double)whole;
	} else if (type != IS_DOUBLE) {
		return false;
	}
	if (!(seconds >= 0) || seconds > COAT_MAX_SECONDS) {
		return false;
	}
	*ms = (zend_long)(seconds * 1000 + 0.5);
	return true;
}

bool coat_parse_wait(const char *text, size_t length, zend_long *ms)
{
	return coat_parse_seconds(text, length, ms);
}

bool coat_parse_lease(const char *text, size_t length, zend_long *ms)
{
	zend_long lease;

	if (!coat_parse_seconds(text, length, &lease) || lease < 1) {
		return false;
	}
	*ms = lease;
	return true;
}

static const char *const coat_lock_failures[] = {"unlocked", "fail", "readonly"};

bool coat_parse_lock_failure(const char *text, size_t length, coat_lock_failure *failure)
{
	for (int i = COAT_UNLOCKED; i <= COAT_READONLY; i++) {
		if (strlen(coat_lock_failures[i]) == length && strncasecmp(coat_lock_failures[i], text, length) == 0) {
			*failure = i;
			return true;
		}
	}
	return false;
}

const char *coat_lock_failure_name(coat_lock_failure failure)
{
	return coat_lock_failures[failure];
}

bool coat_parse_flag(const char *text, size_t length, bool *flag)
{
	static const struct {
		const char *word;
		bool value;
	} words[] = {{"on", true}, {"yes", true}, {"true", true}, {"1", true}, {"off", false}, {"no", false},
		{"false", false}, {"0", false}};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strlen(words[i].word) == length && strncasecmp(words[i].word, text, length) == 0) {
			*flag = words[i].value;
			return true;
		}
	}
	return false;
}

bool coat_parse_socket(const char *text, size_t length, char *socket)
{
	if (length >= 7 && strncasecmp(text, "unix://", 7) == 0) {
		text += 7;
		length -= 7;
	}
	if (length == 0 || length > COAT_SOCKET_MAX || text[0] != '/' || memchr(text, '\0', length)) {
		return false;
	}
	memcpy(socket, text, length);
	socket[length] = '\0';
	return true;
}

/* ---- session.save_path ---- */

static bool coat_set_prefix(coat_settings *settings, const char *text, size_t length)
{
	if (length > COAT_PREFIX_MAX) {
		return false;
	}
	memcpy(settings->prefix, text, length);
	settings->prefix_length = length;
	return true;
}

typedef enum { COAT_OPTION_SET, COAT_OPTION_BAD_VALUE, COAT_OPTION_UNKNOWN } coat_option_result;

static coat_option_result coat_set_option(coat_settings *settings, const char *name, const char *value, size_t length)
{
	bool valid;

	if (strcmp(name, "lock_wait") == 0) {
		valid = coat_parse_wait(value, length, &settings->lock_wait_ms);
	} else if (strcmp(name, "lock_lease") == 0) {
		valid = coat_parse_lease(value, length, &settings->lock_lease_ms);
	} else if (strcmp(name, "lock_failure") == 0) {
		valid = coat_parse_lock_failure(value, length, &settings->lock_failure);
	} else if (strcmp(name, "session_locking") == 0) {
		valid = coat_parse_flag(value, length, &settings->session_locking);
	} else if (strcmp(name, "prefix") == 0) {
		valid = coat_set_prefix(settings, value, length);
	} else if (strcmp(name, "timeout_ms") == 0) {
		valid = coat_parse_milliseconds(value, length, &settings->timeout_ms);
	} else if (strcmp(name, "connect_timeout_ms") == 0) {
		valid = coat_parse_milliseconds(value, length, &settings->connect_timeout_ms);
	} else {
		return COAT_OPTION_UNKNOWN;
	}
	return valid ? COAT_OPTION_SET : COAT_OPTION_BAD_VALUE;
}

/* Reads one "name=value"; the value may be percent-encoded. */
static bool coat_parse_option(coat_settings *settings, const char *pair, size_t length, char *problem, size_t size)
{
	char name[32], value[COAT_PREFIX_MAX * 3 + 1];
	const char *equals = memchr(pair, '=', length);
	size_t name_length = equals ? (size_t)(equals - pair) : length;
	size_t value_length = equals ? length - name_length - 1 : 0;

	snprintf(name, sizeof(name), "%.*s", (int)MIN(name_length, sizeof(name)), pair);
	if (!equals || value_length >= sizeof(value)) {
		snprintf(problem, size, "the option %s needs a value as in name=value", name);
		return false;
	}
	memcpy(value, equals + 1, value_length);
	value[value_length] = '\0';
	value_length = php_raw_url_decode(value, value_length);
	switch (coat_set_option(settings, name, value, value_length)) {
		case COAT_OPTION_SET:
			return true;
		case COAT_OPTION_BAD_VALUE:
			snprintf(problem, size, "the option %s has the bad value \"%.60s\"", name, value);
			return false;
		default:
			snprintf(problem, size,
				"unknown option %s; there are lock_wait, lock_lease, lock_failure, session_locking, prefix, "
				"timeout_ms, "
				"connect_timeout_ms",
				name);
			return false;
	}
}

static bool coat_parse_options(coat_settings *settings, const char *options, char *problem, size_t size)
{
	while (*options) {
		size_t length = strcspn(options, "&");

		if (length > 0 && !coat_parse_option(settings, options, length, problem, size)) {
			return false;
		}
		options += length + (options[length] == '&');
	}
	return true;
}

static bool coat_is_directory(const char *path)
{
	struct stat info;

	return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool coat_settings_load(coat_settings *settings, const char *save_path, char *problem, size_t size)
{
	bool is_url = save_path && strncasecmp(save_path, "unix:", 5) == 0;
	size_t length = save_path ? strlen(save_path) : 0;
	const char *options = "";

	coat_settings_from_ini(settings);
	if (is_url) {
		length = strcspn(save_path, "?");
		options = save_path + length + (save_path[length] == '?');
	}
	if (length == 0 || (is_url && length <= strlen("unix://")) || (!is_url && coat_is_directory(save_path))) {
		save_path = COAT_G(socket);
		length = strlen(save_path);
	}
	if (!coat_parse_socket(save_path, length, settings->socket)) {
		snprintf(problem, size,
			"\"%.100s\" is not a socket; session.save_path is empty, an absolute path of at most %d bytes, or "
			"unix:///path?option=value",
			save_path, COAT_SOCKET_MAX);
		return false;
	}
	return coat_parse_options(settings, options, problem, size);
}
