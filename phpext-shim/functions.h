/*
 * coatcheck_call, coatcheck_pipeline, coatcheck_session_info, and what the kv functions share with
 * them: one call over the connection of coatcheck.socket.
 */

#ifndef COATCHECK_FUNCTIONS_H
#define COATCHECK_FUNCTIONS_H

#include "php.h"
#include "client.h"

/* Calls a method with parameters from C; waits for coatcheck.timeout_ms + extra_wait_ms. False with
 * err set when it failed; *result is undefined then. */
bool coat_call(
	const char *method, const coat_param *params, size_t count, zend_long extra_wait_ms, zval *result, coat_error *err);

/* The socket of the functions: coatcheck.socket, in the form in which connections are kept. */
const char *coat_functions_socket(void);

#endif
