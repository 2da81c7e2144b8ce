/*
 * The module: settings, registration, phpinfo, and the sweep at the end of a request.
 *
 * Nothing here connects. The master process of php-fpm loads the module, its workers connect when
 * a request first needs the daemon.
 *
 * The sweep is in post_deactivate, not in RSHUTDOWN: a module that depends on session is shut down
 * before session is, so at our RSHUTDOWN the last write is still to come. In post_deactivate there
 * is no engine left to raise an error in; it is plain C and one send.
 */

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "php_coatcheck.h"
#include "php_coatcheck_compat.h"
#include "php_ini.h"
#include "ext/standard/info.h"
#include "exceptions.h"
#include "functions.h"
#include "session.h"
#include "coatcheck_arginfo.h"
#include <msgpack/version.h>
#include <unistd.h>

ZEND_DECLARE_MODULE_GLOBALS(coatcheck)

/* ---- settings ---- */

/* Refuses a bad value: the setting keeps the one it had, and the warning says what is allowed. */
static int coat_refuse_setting(zend_ini_entry *entry, zend_string *value, const char *allowed)
{
	php_error_docref(
		NULL, E_WARNING, "%s = \"%s\" is not valid: %s", ZSTR_VAL(entry->name), value ? ZSTR_VAL(value) : "", allowed);
	return FAILURE;
}

typedef bool (*coat_number_parser)(const char *text, size_t length, zend_long *ms);

static int coat_update_number(
	zend_ini_entry *entry, zend_string *value, zend_long *target, coat_number_parser parse, const char *allowed)
{
	if (!value || !parse(ZSTR_VAL(value), ZSTR_LEN(value), target)) {
		return coat_refuse_setting(entry, value, allowed);
	}
	return SUCCESS;
}

#define COAT_INI_TARGET() ((zend_long *)ZEND_INI_GET_ADDR())

static ZEND_INI_MH(OnUpdateMilliseconds)
{
	return coat_update_number(
		entry, new_value, COAT_INI_TARGET(), coat_parse_milliseconds, "whole milliseconds, 1 to 86400000");
}

static ZEND_INI_MH(OnUpdateWait)
{
	return coat_update_number(entry, new_value, COAT_INI_TARGET(), coat_parse_wait, "seconds, 0 to 86400, such as 0.5");
}

static ZEND_INI_MH(OnUpdateLease)
{
	return coat_update_number(
		entry, new_value, COAT_INI_TARGET(), coat_parse_lease, "seconds, 0.001 to 86400, such as 0.5");
}

static ZEND_INI_MH(OnUpdateLockFailure)
{
	coat_lock_failure failure;

	if (!new_value || !coat_parse_lock_failure(ZSTR_VAL(new_value), ZSTR_LEN(new_value), &failure)) {
		return coat_refuse_setting(entry, new_value, "unlocked, fail or readonly");
	}
	*COAT_INI_TARGET() = failure;
	return SUCCESS;
}

static ZEND_INI_MH(OnUpdateSocket)
{
	char socket[COAT_SOCKET_MAX + 1];

	if (!new_value || !coat_parse_socket(ZSTR_VAL(new_value), ZSTR_LEN(new_value), socket)) {
		return coat_refuse_setting(entry, new_value, "the absolute path of a Unix socket, at most 107 bytes");
	}
	return OnUpdateString(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage);
}

static ZEND_INI_MH(OnUpdatePrefix)
{
	if (new_value && ZSTR_LEN(new_value) > COAT_PREFIX_MAX) {
		return coat_refuse_setting(entry, new_value, "at most 255 bytes");
	}
	return OnUpdateString(entry, new_value, mh_arg1, mh_arg2, mh_arg3, stage);
}

/* PHP's own handler takes any other word for Off, and a misspelt On would turn the locks off. */
static ZEND_INI_MH(OnUpdateFlag)
{
	bool flag = false;

	/* an Off without quotes arrives as nothing */
	if (new_value && ZSTR_LEN(new_value) > 0 && !coat_parse_flag(ZSTR_VAL(new_value), ZSTR_LEN(new_value), &flag)) {
		return coat_refuse_setting(entry, new_value, "On or Off");
	}
	*(bool *)ZEND_INI_GET_ADDR() = flag;
	return SUCCESS;
}

#define COAT_INI(name, preset, update, field) \
	STD_PHP_INI_ENTRY("coatcheck." name, preset, PHP_INI_ALL, update, field, zend_coatcheck_globals, coatcheck_globals)

PHP_INI_BEGIN()
	COAT_INI("socket", "/run/coatcheck/coatcheck.sock", OnUpdateSocket, socket)
	COAT_INI("connect_timeout_ms", "1000", OnUpdateMilliseconds, connect_timeout_ms)
	COAT_INI("timeout_ms", "5000", OnUpdateMilliseconds, timeout_ms)
	COAT_INI("lock_lease", "30", OnUpdateLease, lock_lease_ms)
	COAT_INI("lock_wait", "30", OnUpdateWait, lock_wait_ms)
	COAT_INI("lock_failure", "unlocked", OnUpdateLockFailure, lock_failure)
	COAT_INI("prefix", "", OnUpdatePrefix, prefix)
	STD_PHP_INI_BOOLEAN("coatcheck.session_locking", "1", PHP_INI_ALL, OnUpdateFlag, session_locking,
		zend_coatcheck_globals, coatcheck_globals)
PHP_INI_END()

void coat_settings_from_ini(coat_settings *settings)
{
	settings->prefix_length = strlen(COAT_G(prefix));
	memcpy(settings->prefix, COAT_G(prefix), settings->prefix_length);
	settings->connect_timeout_ms = COAT_G(connect_timeout_ms);
	settings->timeout_ms = COAT_G(timeout_ms);
	settings->lock_lease_ms = COAT_G(lock_lease_ms);
	settings->lock_wait_ms = COAT_G(lock_wait_ms);
	settings->lock_failure = (coat_lock_failure)COAT_G(lock_failure);
	settings->session_locking = COAT_G(session_locking);
}

/* ---- life cycle ---- */

static PHP_GINIT_FUNCTION(coatcheck)
{
#if defined(ZTS) && defined(COMPILE_DL_COATCHECK)
	ZEND_TSRMLS_CACHE_UPDATE();
#endif
	memset(coatcheck_globals, 0, sizeof(*coatcheck_globals));
}

static PHP_GSHUTDOWN_FUNCTION(coatcheck)
{
	coat_connections_free(coatcheck_globals->connections);
}

/* An extension that was loaded before us keeps its functions. */
static zend_result coat_register_aliases(void)
{
	for (const zend_function_entry *entry = coat_alias_functions; entry->fname; entry++) {
		const zend_function_entry one[] = {*entry, ZEND_FE_END};

		if (!zend_hash_str_exists(CG(function_table), entry->fname, strlen(entry->fname)) &&
			zend_register_functions(NULL, one, NULL, MODULE_PERSISTENT) == FAILURE) {
			return FAILURE;
		}
	}
	return SUCCESS;
}

static PHP_MINIT_FUNCTION(coatcheck)
{
	REGISTER_INI_ENTRIES();
	coat_register_exceptions();
	if (!coat_watch_forks() || coat_register_aliases() == FAILURE) {
		return FAILURE;
	}
	return php_session_register_module(&coat_session_module);
}

static PHP_MSHUTDOWN_FUNCTION(coatcheck)
{
	UNREGISTER_INI_ENTRIES();
	return SUCCESS;
}

static PHP_RINIT_FUNCTION(coatcheck)
{
#if defined(ZTS) && defined(COMPILE_DL_COATCHECK)
	ZEND_TSRMLS_CACHE_UPDATE();
#endif
	return SUCCESS;
}

static ZEND_MODULE_POST_ZEND_DEACTIVATE_D(coatcheck)
{
	coat_connection *conn;

	coat_session_forget();
	for (conn = COAT_G(connections); conn; conn = conn->next) {
		coat_end_request(conn);
	}
	return SUCCESS;
}

/* ---- phpinfo ---- */

static void coat_describe_connection(const coat_connection *conn, char *text, size_t size)
{
	char since[32];
	struct tm local;

	if (!conn || conn->fd < 0 || conn->pid != coat_pid()) {
		snprintf(text, size, "not connected (a request connects when it first needs the daemon)");
		return;
	}
	strftime(since, sizeof(since), "%Y-%m-%d %H:%M:%S", php_localtime_r(&conn->connected_at, &local));
	snprintf(text, size, "connected since %s, pid %d, daemon %s, frame limit %u bytes", since, (int)conn->pid,
		conn->server[0] ? conn->server : "(version unknown)", conn->max_frame);
}

static PHP_MINFO_FUNCTION(coatcheck)
{
	char connection[256];

	coat_describe_connection(coat_connection_find(coat_functions_socket()), connection, sizeof(connection));
	php_info_print_table_start();
	php_info_print_table_row(2, "coatcheck support", "enabled");
	php_info_print_table_row(2, "Version", PHP_COATCHECK_VERSION);
	php_info_print_table_row(2, "MessagePack library", msgpack_version());
	php_info_print_table_row(2, "Session save handler", "coatcheck");
	php_info_print_table_row(2, "Socket", coat_functions_socket());
	php_info_print_table_row(2, "Connection", connection);
	php_info_print_table_end();
	DISPLAY_INI_ENTRIES();
}

/* ---- module ---- */

static const zend_module_dep coatcheck_deps[] = {ZEND_MOD_REQUIRED("session") ZEND_MOD_OPTIONAL("ephpm") ZEND_MOD_END};

zend_module_entry coatcheck_module_entry = {
	STANDARD_MODULE_HEADER_EX,
	NULL,
	coatcheck_deps,
	"coatcheck",
	coat_functions,
	PHP_MINIT(coatcheck),
	PHP_MSHUTDOWN(coatcheck),
	PHP_RINIT(coatcheck),
	NULL,
	PHP_MINFO(coatcheck),
	PHP_COATCHECK_VERSION,
	PHP_MODULE_GLOBALS(coatcheck),
	PHP_GINIT(coatcheck),
	PHP_GSHUTDOWN(coatcheck),
	ZEND_MODULE_POST_ZEND_DEACTIVATE_N(coatcheck),
	STANDARD_MODULE_PROPERTIES_EX,
};

#ifdef COMPILE_DL_COATCHECK
#ifdef ZTS
ZEND_TSRMLS_CACHE_DEFINE()
#endif
ZEND_GET_MODULE(coatcheck)
#endif
