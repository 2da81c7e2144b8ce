#ifndef COATCHECK_SESSION_H
#define COATCHECK_SESSION_H

#include "php.h"
#include "ext/session/php_session.h"

/* The save handler, to be registered in MINIT. */
extern const ps_module coat_session_module;

/* Fills return_value for coatcheck_session_info(). */
void coat_session_info(zval *return_value);

/* Frees a session whose close PHP never called. Plain C: runs when the engine is down. */
void coat_session_forget(void);

#endif
