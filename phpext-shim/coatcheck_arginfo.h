/* Kept by hand beside coatcheck.stub.php, so that a build needs no generator. The test
 * stub_and_extension_agree.phpt compares the two. */

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_coatcheck_call, 0, 1, IS_MIXED, 0)
ZEND_ARG_TYPE_INFO(0, method, IS_STRING, 0)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, params, IS_ARRAY, 0, "[]")
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, timeoutMs, IS_LONG, 1, "null")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_coatcheck_pipeline, 0, 1, IS_ARRAY, 0)
ZEND_ARG_TYPE_INFO(0, calls, IS_ARRAY, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_coatcheck_session_info, 0, 0, IS_ARRAY, 1)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_coatcheck_kv_get, 0, 1, IS_STRING, 1)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bucket, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_coatcheck_kv_mget, 0, 1, IS_ARRAY, 0)
ZEND_ARG_TYPE_INFO(0, keys, IS_ARRAY, 0)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bucket, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_coatcheck_kv_set, 0, 2, MAY_BE_ARRAY | MAY_BE_BOOL)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_ARG_TYPE_INFO(0, value, IS_STRING, 0)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, ttlSeconds, IS_DOUBLE, 1, "null")
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, nx, _IS_BOOL, 0, "false")
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, xx, _IS_BOOL, 0, "false")
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, ifeq, IS_STRING, 1, "null")
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, keepttl, _IS_BOOL, 0, "false")
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, get, _IS_BOOL, 0, "false")
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bucket, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_coatcheck_kv_setnx, 0, 2, _IS_BOOL, 0)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_ARG_TYPE_INFO(0, value, IS_STRING, 0)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, ttlSeconds, IS_DOUBLE, 1, "null")
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bucket, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_coatcheck_kv_del, 0, 1, IS_LONG, 0)
ZEND_ARG_TYPE_MASK(0, key, MAY_BE_STRING | MAY_BE_ARRAY, NULL)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bucket, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_coatcheck_kv_del_if_eq, 0, 2, _IS_BOOL, 0)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_ARG_TYPE_INFO(0, value, IS_STRING, 0)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bucket, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_coatcheck_kv_exists, 0, 1, _IS_BOOL, 0)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bucket, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_coatcheck_kv_incr, 0, 1, IS_LONG, 0)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bucket, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_coatcheck_kv_decr, 0, 1, IS_LONG, 0)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bucket, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_coatcheck_kv_incr_by, 0, 2, IS_LONG, 1)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_ARG_TYPE_INFO(0, delta, IS_LONG, 0)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, ttlSeconds, IS_DOUBLE, 1, "null")
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, create, _IS_BOOL, 0, "true")
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, floor, IS_LONG, 1, "null")
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bucket, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_coatcheck_kv_expire, 0, 2, _IS_BOOL, 0)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_ARG_TYPE_INFO(0, ttlSeconds, IS_DOUBLE, 0)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bucket, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_coatcheck_kv_expire_if_eq, 0, 3, _IS_BOOL, 0)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_ARG_TYPE_INFO(0, value, IS_STRING, 0)
ZEND_ARG_TYPE_INFO(0, ttlSeconds, IS_DOUBLE, 0)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bucket, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_coatcheck_kv_getdel, 0, 1, IS_STRING, 1)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bucket, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_coatcheck_kv_ttl, 0, 1, IS_LONG, 0)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bucket, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_coatcheck_kv_pttl, 0, 1, IS_LONG, 0)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bucket, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_coatcheck_kv_scan, 0, 0, IS_ARRAY, 0)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, prefix, IS_STRING, 0, "\"\"")
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, cursor, IS_LONG, 0, "0")
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, count, IS_LONG, 0, "1000")
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bucket, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_coatcheck_kv_flush_all, 0, 0, _IS_BOOL, 0)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bucket, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_coatcheck_kv_wait, 0, 3, MAY_BE_ARRAY | MAY_BE_FALSE)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_ARG_TYPE_INFO(0, lastVersion, IS_LONG, 0)
ZEND_ARG_TYPE_INFO(0, timeoutMs, IS_LONG, 0)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, bucket, IS_STRING, 0, "\"\"")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_ephpm_kv_get, 0, 1, IS_STRING, 1)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_ephpm_kv_set, 0, 2, _IS_BOOL, 0)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_ARG_TYPE_INFO(0, value, IS_STRING, 0)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, ttl, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_ephpm_kv_setnx, 0, 2, _IS_BOOL, 0)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_ARG_TYPE_INFO(0, value, IS_STRING, 0)
ZEND_ARG_TYPE_INFO_WITH_DEFAULT_VALUE(0, ttl, IS_LONG, 0, "0")
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_ephpm_kv_del, 0, 1, MAY_BE_LONG | MAY_BE_FALSE)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_ephpm_kv_del_if_eq, 0, 2, _IS_BOOL, 0)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_ARG_TYPE_INFO(0, token, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_ephpm_kv_exists, 0, 1, _IS_BOOL, 0)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_ephpm_kv_incr, 0, 1, MAY_BE_LONG | MAY_BE_FALSE)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_ephpm_kv_decr, 0, 1, MAY_BE_LONG | MAY_BE_FALSE)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_ephpm_kv_incr_by, 0, 2, MAY_BE_LONG | MAY_BE_FALSE)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_ARG_TYPE_INFO(0, delta, IS_LONG, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_ephpm_kv_expire, 0, 2, _IS_BOOL, 0)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_ARG_TYPE_INFO(0, ttl, IS_LONG, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_ephpm_kv_ttl, 0, 1, MAY_BE_LONG | MAY_BE_FALSE)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_ephpm_kv_pttl, 0, 1, MAY_BE_LONG | MAY_BE_FALSE)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_INFO_EX(arginfo_ephpm_kv_flush_all, 0, 0, _IS_BOOL, 0)
ZEND_END_ARG_INFO()

ZEND_BEGIN_ARG_WITH_RETURN_TYPE_MASK_EX(arginfo_ephpm_kv_wait, 0, 3, MAY_BE_ARRAY | MAY_BE_FALSE)
ZEND_ARG_TYPE_INFO(0, key, IS_STRING, 0)
ZEND_ARG_TYPE_INFO(0, last_version, IS_LONG, 0)
ZEND_ARG_TYPE_INFO(0, timeout_ms, IS_LONG, 0)
ZEND_END_ARG_INFO()

PHP_FUNCTION(coatcheck_call);
PHP_FUNCTION(coatcheck_pipeline);
PHP_FUNCTION(coatcheck_session_info);
PHP_FUNCTION(coatcheck_kv_get);
PHP_FUNCTION(coatcheck_kv_mget);
PHP_FUNCTION(coatcheck_kv_set);
PHP_FUNCTION(coatcheck_kv_setnx);
PHP_FUNCTION(coatcheck_kv_del);
PHP_FUNCTION(coatcheck_kv_del_if_eq);
PHP_FUNCTION(coatcheck_kv_exists);
PHP_FUNCTION(coatcheck_kv_incr);
PHP_FUNCTION(coatcheck_kv_decr);
PHP_FUNCTION(coatcheck_kv_incr_by);
PHP_FUNCTION(coatcheck_kv_expire);
PHP_FUNCTION(coatcheck_kv_expire_if_eq);
PHP_FUNCTION(coatcheck_kv_getdel);
PHP_FUNCTION(coatcheck_kv_ttl);
PHP_FUNCTION(coatcheck_kv_pttl);
PHP_FUNCTION(coatcheck_kv_scan);
PHP_FUNCTION(coatcheck_kv_flush_all);
PHP_FUNCTION(coatcheck_kv_wait);
PHP_FUNCTION(ephpm_kv_get);
PHP_FUNCTION(ephpm_kv_set);
PHP_FUNCTION(ephpm_kv_setnx);
PHP_FUNCTION(ephpm_kv_del);
PHP_FUNCTION(ephpm_kv_del_if_eq);
PHP_FUNCTION(ephpm_kv_exists);
PHP_FUNCTION(ephpm_kv_incr);
PHP_FUNCTION(ephpm_kv_decr);
PHP_FUNCTION(ephpm_kv_incr_by);
PHP_FUNCTION(ephpm_kv_expire);
PHP_FUNCTION(ephpm_kv_ttl);
PHP_FUNCTION(ephpm_kv_pttl);
PHP_FUNCTION(ephpm_kv_flush_all);
PHP_FUNCTION(ephpm_kv_wait);

/* clang-format off */
static const zend_function_entry coat_functions[] = {
	PHP_FE(coatcheck_call, arginfo_coatcheck_call)
	PHP_FE(coatcheck_pipeline, arginfo_coatcheck_pipeline)
	PHP_FE(coatcheck_session_info, arginfo_coatcheck_session_info)
	PHP_FE(coatcheck_kv_get, arginfo_coatcheck_kv_get)
	PHP_FE(coatcheck_kv_mget, arginfo_coatcheck_kv_mget)
	PHP_FE(coatcheck_kv_set, arginfo_coatcheck_kv_set)
	PHP_FE(coatcheck_kv_setnx, arginfo_coatcheck_kv_setnx)
	PHP_FE(coatcheck_kv_del, arginfo_coatcheck_kv_del)
	PHP_FE(coatcheck_kv_del_if_eq, arginfo_coatcheck_kv_del_if_eq)
	PHP_FE(coatcheck_kv_exists, arginfo_coatcheck_kv_exists)
	PHP_FE(coatcheck_kv_incr, arginfo_coatcheck_kv_incr)
	PHP_FE(coatcheck_kv_decr, arginfo_coatcheck_kv_decr)
	PHP_FE(coatcheck_kv_incr_by, arginfo_coatcheck_kv_incr_by)
	PHP_FE(coatcheck_kv_expire, arginfo_coatcheck_kv_expire)
	PHP_FE(coatcheck_kv_expire_if_eq, arginfo_coatcheck_kv_expire_if_eq)
	PHP_FE(coatcheck_kv_getdel, arginfo_coatcheck_kv_getdel)
	PHP_FE(coatcheck_kv_ttl, arginfo_coatcheck_kv_ttl)
	PHP_FE(coatcheck_kv_pttl, arginfo_coatcheck_kv_pttl)
	PHP_FE(coatcheck_kv_scan, arginfo_coatcheck_kv_scan)
	PHP_FE(coatcheck_kv_flush_all, arginfo_coatcheck_kv_flush_all)
	PHP_FE(coatcheck_kv_wait, arginfo_coatcheck_kv_wait)
	PHP_FE_END
};

/* Registered one by one, where nobody else has them. */
static const zend_function_entry coat_alias_functions[] = {
	PHP_FE(ephpm_kv_get, arginfo_ephpm_kv_get)
	PHP_FE(ephpm_kv_set, arginfo_ephpm_kv_set)
	PHP_FE(ephpm_kv_setnx, arginfo_ephpm_kv_setnx)
	PHP_FE(ephpm_kv_del, arginfo_ephpm_kv_del)
	PHP_FE(ephpm_kv_del_if_eq, arginfo_ephpm_kv_del_if_eq)
	PHP_FE(ephpm_kv_exists, arginfo_ephpm_kv_exists)
	PHP_FE(ephpm_kv_incr, arginfo_ephpm_kv_incr)
	PHP_FE(ephpm_kv_decr, arginfo_ephpm_kv_decr)
	PHP_FE(ephpm_kv_incr_by, arginfo_ephpm_kv_incr_by)
	PHP_FE(ephpm_kv_expire, arginfo_ephpm_kv_expire)
	PHP_FE(ephpm_kv_ttl, arginfo_ephpm_kv_ttl)
	PHP_FE(ephpm_kv_pttl, arginfo_ephpm_kv_pttl)
	PHP_FE(ephpm_kv_flush_all, arginfo_ephpm_kv_flush_all)
	PHP_FE(ephpm_kv_wait, arginfo_ephpm_kv_wait)
	PHP_FE_END
};
/* clang-format on */
