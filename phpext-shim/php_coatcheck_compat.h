/*
 * Differences between PHP versions, all of them here: no other file asks for PHP_VERSION_ID.
 *
 * 8.1      has the random functions in ext/standard and plain booleans for the executor's flags;
 *          its early releases lack the macro for the address of a setting
 * 8.2      moved the random functions to ext/random and made the flags atomic
 * 8.6      hands a save handler's open its two strings as zend_string
 */

#ifndef PHP_COATCHECK_COMPAT_H
#define PHP_COATCHECK_COMPAT_H

#include "php.h"
#include "php_ini.h"

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

#ifndef ZEND_INI_GET_ADDR
#ifdef ZTS
#define ZEND_INI_GET_ADDR() ((char *)ts_resource(*((int *)mh_arg2)) + (size_t)mh_arg1)
#else
#define ZEND_INI_GET_ADDR() ((char *)mh_arg2 + (size_t)mh_arg1)
#endif
#endif

#if PHP_VERSION_ID < 80600
#define COAT_SAVE_PATH(save_path) (save_path)
#else
#define COAT_SAVE_PATH(save_path) ((save_path) ? ZSTR_VAL(save_path) : NULL)
#endif

#endif
