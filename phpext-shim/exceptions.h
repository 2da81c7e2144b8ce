/*
 * Coatcheck\Exception and its kinds: one class per error code of the protocol, one table for both.
 */

#ifndef COATCHECK_EXCEPTIONS_H
#define COATCHECK_EXCEPTIONS_H

#include "error.h"

void coat_register_exceptions(void);

/* The kind for a wire code; COAT_ERROR_INTERNAL for a code that this version does not know. */
coat_error_kind coat_error_kind_of_code(const char *code);

/* Makes the exception object for err and takes over err->details. `socket` is named in its message. */
void coat_exception_create(zval *exception, coat_error *err, const char *socket);

/* Throws what coat_exception_create makes, or a ValueError when the argument was at fault. */
void coat_throw(coat_error *err, const char *socket);

#endif
