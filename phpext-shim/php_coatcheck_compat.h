/*
 * Differences between PHP versions, all of them here: no other file asks for PHP_VERSION_ID.
 *
 * 8.1      has the random functions in ext/standard and plain booleans for the executor's flags
 * 8.2      moved the random functions to ext/random and made the flags atomic
 * 8.6      hands a save handler's open its two strings as zend_string
 */

#ifndef PHP_COATCHECK_COMPAT_H
#define PHP_COATCHECK_COMPAT_H

#include "php.h"

#if PHP_VERSION_ID < 80100
#error "coatcheck needs PHP 8.1 or newer"
#endif

#if PHP_VERSION_ID < 80200
#include "ext/standard/php_random.h"
#define COAT_TIMED_OUT() (EG(timed_out))
#else
#include "ext/random/php_random.h"
#define COAT_TIMED_OUT() zend_atomic_bool_load_ex(&EG(timed_out))
#endif

#if PHP_VERSION_ID < 80600
#define COAT_SAVE_PATH(save_path) (save_path)
#else
#define COAT_SAVE_PATH(save_path) ((save_path) ? ZSTR_VAL(save_path) : NULL)
#endif

#endif
