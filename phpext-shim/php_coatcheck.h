#ifndef PHP_COATCHECK_H
#define PHP_COATCHECK_H

#include "php.h"
#include "settings.h"

#define PHP_COATCHECK_VERSION "1.0.0"

extern zend_module_entry coatcheck_module_entry;
#define phpext_coatcheck_ptr &coatcheck_module_entry

/* State of a thread (of the process without ZTS). It outlives requests, except `session`. */
ZEND_BEGIN_MODULE_GLOBALS(coatcheck)
	struct coat_connection *connections; /* one for each socket that was used */
	struct coat_session *session;        /* the session between its open and close, or NULL */
	char *socket;
	char *prefix;
	zend_long connect_timeout_ms;
	zend_long timeout_ms;
	zend_long lock_lease_ms;
	zend_long lock_wait_ms;
	zend_long lock_failure; /* a coat_lock_failure */
	bool session_locking;
ZEND_END_MODULE_GLOBALS(coatcheck)

ZEND_EXTERN_MODULE_GLOBALS(coatcheck)
#define COAT_G(v) ZEND_MODULE_GLOBALS_ACCESSOR(coatcheck, v)

#if defined(ZTS) && defined(COMPILE_DL_COATCHECK)
ZEND_TSRMLS_CACHE_EXTERN()
#endif

/* Fills the settings that have an ini entry; the socket is left to coat_settings_load. */
void coat_settings_from_ini(coat_settings *settings);

#endif
