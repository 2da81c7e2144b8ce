/*
 * The kv functions, each in two forms over one daemon method.
 *
 * coatcheck_kv_* throw a Coatcheck\Exception when they fail. ephpm_kv_* have the signatures and
 * meanings of ePHPm's functions, whole seconds among them; they answer null or false and raise a
 * warning that names the error.
 */

#include "functions.h"
#include "exceptions.h"
#include "php_coatcheck.h"
#include <math.h>

#define COAT_COUNT(params) (sizeof(params) / sizeof((params)[0]))
#define COAT_MAX_TTL_S 1e12
#define COAT_MAX_WAIT_MS (24 * 3600 * 1000)

/* Calls and throws; true when there is a result. */
static bool coat_kv(const char *method, const coat_param *params, size_t count, zval *result)
{
	coat_error err = COAT_ERROR_INIT;

	if (coat_call(method, params, count, 0, result, &err)) {
		return true;
	}
	coat_throw(&err, coat_functions_socket());
	return false;
}

/* Calls and warns; true when there is a result. */
static bool coat_alias(const char *method, const coat_param *params, size_t count, zval *result)
{
	coat_error err = COAT_ERROR_INIT;

	if (coat_call(method, params, count, 0, result, &err)) {
		return true;
	}
	zval_ptr_dtor(&err.details);
	php_error_docref(NULL, E_WARNING, "coatcheck at %s: %s", coat_functions_socket(), err.message);
	return false;
}

/* An argument in seconds as milliseconds; part of one counts as a whole. Throws when it cannot be a life time. */
static bool coat_ttl_argument(uint32_t position, double seconds, bool is_null, int64_t *ttl_ms)
{
	*ttl_ms = 0;
	if (is_null) {
		return true;
	}
	if (!(seconds > 0) || seconds > COAT_MAX_TTL_S) {
		zend_argument_value_error(position, "must be greater than 0 and at most %.0f", COAT_MAX_TTL_S);
		return false;
	}
	*ttl_ms = (int64_t)ceil(seconds * 1000);
	return true;
}

static coat_param coat_bucket(const zend_string *bucket)
{
	return coat_param_string("bucket", bucket && ZSTR_LEN(bucket) > 0 ? bucket : NULL);
}

/* Takes the number out of an answer, which is of another type only when the daemon is no daemon of ours. */
static zend_long coat_take_number(zval *answer)
{
	zend_long number = zval_get_long(answer);

	zval_ptr_dtor(answer);
	return number;
}

/* -1 and -2 stay what they are. */
static zend_long coat_whole_seconds(zend_long ms)
{
	return ms > 0 ? (ms - 1) / 1000 + 1 : ms;
}

/* ---- reading ---- */

/* Functions of one key: parses (key, bucket) and calls. */
static bool coat_kv_of_key(INTERNAL_FUNCTION_PARAMETERS, const char *method)
{
	zend_string *key, *bucket = NULL;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "S|S", &key, &bucket) == FAILURE) {
		return false;
	}
	coat_param params[] = {coat_param_string("key", key), coat_bucket(bucket)};
	return coat_kv(method, params, COAT_COUNT(params), return_value);
}

PHP_FUNCTION(coatcheck_kv_get)
{
	coat_kv_of_key(INTERNAL_FUNCTION_PARAM_PASSTHRU, "kv.get");
}

PHP_FUNCTION(coatcheck_kv_getdel)
{
	coat_kv_of_key(INTERNAL_FUNCTION_PARAM_PASSTHRU, "kv.getdel");
}

PHP_FUNCTION(coatcheck_kv_pttl)
{
	coat_kv_of_key(INTERNAL_FUNCTION_PARAM_PASSTHRU, "kv.ttl");
}

PHP_FUNCTION(coatcheck_kv_ttl)
{
	if (coat_kv_of_key(INTERNAL_FUNCTION_PARAM_PASSTHRU, "kv.ttl")) {
		RETVAL_LONG(coat_whole_seconds(coat_take_number(return_value)));
	}
}

PHP_FUNCTION(coatcheck_kv_exists)
{
	if (coat_kv_of_key(INTERNAL_FUNCTION_PARAM_PASSTHRU, "kv.exists")) {
		RETVAL_BOOL(coat_take_number(return_value) > 0);
	}
}

/* The keys as a list of strings, whatever the array's own keys and integers are. */
static void coat_key_list(zval *list, HashTable *keys)
{
	zval *key;

	array_init_size(list, zend_hash_num_elements(keys));
	ZEND_HASH_FOREACH_VAL(keys, key)
	{
		zend_string *name = zval_try_get_string(key);

		if (!name) {
			break;
		}
		add_next_index_str(list, name);
	}
	ZEND_HASH_FOREACH_END();
}

/* The values of the answer under the keys that were asked for. */
static void coat_combine(zval *combined, HashTable *keys, zval *values)
{
	uint32_t at = 0;
	zval *key, *value;

	array_init_size(combined, zend_hash_num_elements(keys));
	ZEND_HASH_FOREACH_VAL(keys, key)
	{
		value = Z_TYPE_P(values) == IS_ARRAY ? zend_hash_index_find(Z_ARRVAL_P(values), at++) : NULL;
		if (value) {
			Z_TRY_ADDREF_P(value);
			zend_symtable_update(Z_ARRVAL_P(combined), Z_STR_P(key), value);
		}
	}
	ZEND_HASH_FOREACH_END();
}

PHP_FUNCTION(coatcheck_kv_mget)
{
	HashTable *keys;
	zend_string *bucket = NULL;
	zval list, values;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "h|S", &keys, &bucket) == FAILURE) {
		RETURN_THROWS();
	}
	if (zend_hash_num_elements(keys) == 0) {
		RETURN_EMPTY_ARRAY();
	}
	coat_key_list(&list, keys);
	if (!EG(exception)) {
		coat_param params[] = {coat_param_value("keys", &list), coat_bucket(bucket)};

		if (coat_kv("kv.mget", params, COAT_COUNT(params), &values)) {
			coat_combine(return_value, Z_ARRVAL(list), &values);
			zval_ptr_dtor(&values);
		}
	}
	zval_ptr_dtor(&list);
}

PHP_FUNCTION(coatcheck_kv_scan)
{
	zend_string *prefix = NULL, *bucket = NULL;
	zend_long cursor = 0, count = 1000;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "|SllS", &prefix, &cursor, &count, &bucket) == FAILURE) {
		RETURN_THROWS();
	}
	if (count < 1) {
		zend_argument_value_error(3, "must be greater than 0");
		RETURN_THROWS();
	}
	coat_param params[] = {
		coat_param_string("prefix", prefix),
		coat_param_int("cursor", cursor),
		coat_param_int("count", count),
		coat_bucket(bucket),
	};
	coat_kv("kv.scan", params, COAT_COUNT(params), return_value);
}

/* ---- writing ---- */

PHP_FUNCTION(coatcheck_kv_set)
{
	zend_string *key, *value, *ifeq = NULL, *bucket = NULL;
	double ttl = 0;
	bool no_ttl = true, nx = false, xx = false, keepttl = false, get = false;
	int64_t ttl_ms;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "SS|d!bbS!bbS", &key, &value, &ttl, &no_ttl, &nx, &xx, &ifeq, &keepttl,
			&get, &bucket) == FAILURE ||
		!coat_ttl_argument(3, ttl, no_ttl, &ttl_ms)) {
		RETURN_THROWS();
	}
	coat_param params[] = {
		coat_param_string("key", key),
		coat_param_string("value", value),
		coat_param_int_if("ttl_ms", ttl_ms, ttl_ms > 0),
		coat_param_flag("nx", nx),
		coat_param_flag("xx", xx),
		coat_param_string("ifeq", ifeq),
		coat_param_flag("keepttl", keepttl),
		coat_param_flag("get", get),
		coat_bucket(bucket),
	};
	coat_kv("kv.set", params, COAT_COUNT(params), return_value);
}

PHP_FUNCTION(coatcheck_kv_setnx)
{
	zend_string *key, *value, *bucket = NULL;
	double ttl = 0;
	bool no_ttl = true;
	int64_t ttl_ms;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "SS|d!S", &key, &value, &ttl, &no_ttl, &bucket) == FAILURE ||
		!coat_ttl_argument(3, ttl, no_ttl, &ttl_ms)) {
		RETURN_THROWS();
	}
	coat_param params[] = {
		coat_param_string("key", key),
		coat_param_string("value", value),
		coat_param_int_if("ttl_ms", ttl_ms, ttl_ms > 0),
		coat_bucket(bucket),
	};
	coat_kv("kv.setnx", params, COAT_COUNT(params), return_value);
}

PHP_FUNCTION(coatcheck_kv_del)
{
	zend_string *key = NULL, *bucket = NULL;
	HashTable *keys = NULL;
	zval list;

	ZEND_PARSE_PARAMETERS_START(1, 2)
		Z_PARAM_ARRAY_HT_OR_STR(keys, key)
		Z_PARAM_OPTIONAL
		Z_PARAM_STR(bucket)
	ZEND_PARSE_PARAMETERS_END();
	if (keys && zend_hash_num_elements(keys) == 0) {
		RETURN_LONG(0);
	}
	ZVAL_UNDEF(&list);
	if (keys) {
		coat_key_list(&list, keys);
	}
	if (!EG(exception)) {
		coat_param params[] = {
			coat_param_string("key", key), coat_param_value("keys", keys ? &list : NULL), coat_bucket(bucket)};

		coat_kv("kv.del", params, COAT_COUNT(params), return_value);
	}
	zval_ptr_dtor(&list);
}

PHP_FUNCTION(coatcheck_kv_del_if_eq)
{
	zend_string *key, *value, *bucket = NULL;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "SS|S", &key, &value, &bucket) == FAILURE) {
		RETURN_THROWS();
	}
	coat_param params[] = {coat_param_string("key", key), coat_param_string("value", value), coat_bucket(bucket)};
	coat_kv("kv.del_if_eq", params, COAT_COUNT(params), return_value);
}

PHP_FUNCTION(coatcheck_kv_expire)
{
	zend_string *key, *bucket = NULL;
	double ttl;
	int64_t ttl_ms;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "Sd|S", &key, &ttl, &bucket) == FAILURE ||
		!coat_ttl_argument(2, ttl, false, &ttl_ms)) {
		RETURN_THROWS();
	}
	coat_param params[] = {coat_param_string("key", key), coat_param_int("ttl_ms", ttl_ms), coat_bucket(bucket)};
	coat_kv("kv.expire", params, COAT_COUNT(params), return_value);
}

PHP_FUNCTION(coatcheck_kv_expire_if_eq)
{
	zend_string *key, *value, *bucket = NULL;
	double ttl;
	int64_t ttl_ms;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "SSd|S", &key, &value, &ttl, &bucket) == FAILURE ||
		!coat_ttl_argument(3, ttl, false, &ttl_ms)) {
		RETURN_THROWS();
	}
	coat_param params[] = {
		coat_param_string("key", key),
		coat_param_string("value", value),
		coat_param_int("ttl_ms", ttl_ms),
		coat_bucket(bucket),
	};
	coat_kv("kv.expire_if_eq", params, COAT_COUNT(params), return_value);
}

static void coat_kv_step(INTERNAL_FUNCTION_PARAMETERS, zend_long delta)
{
	zend_string *key, *bucket = NULL;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "S|S", &key, &bucket) == FAILURE) {
		RETURN_THROWS();
	}
	coat_param params[] = {coat_param_string("key", key), coat_param_int("delta", delta), coat_bucket(bucket)};
	coat_kv("kv.incr_by", params, COAT_COUNT(params), return_value);
}

PHP_FUNCTION(coatcheck_kv_incr)
{
	coat_kv_step(INTERNAL_FUNCTION_PARAM_PASSTHRU, 1);
}

PHP_FUNCTION(coatcheck_kv_decr)
{
	coat_kv_step(INTERNAL_FUNCTION_PARAM_PASSTHRU, -1);
}

PHP_FUNCTION(coatcheck_kv_incr_by)
{
	zend_string *key, *bucket = NULL;
	zend_long delta, floor = 0;
	double ttl = 0;
	bool no_ttl = true, create = true, no_floor = true;
	int64_t ttl_ms;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "Sl|d!bl!S", &key, &delta, &ttl, &no_ttl, &create, &floor, &no_floor,
			&bucket) == FAILURE ||
		!coat_ttl_argument(3, ttl, no_ttl, &ttl_ms)) {
		RETURN_THROWS();
	}
	coat_param params[] = {
		coat_param_string("key", key),
		coat_param_int("delta", delta),
		coat_param_int_if("ttl_ms", ttl_ms, ttl_ms > 0),
		create ? coat_param_flag("missing", false) : coat_param_bytes("missing", ZEND_STRL("fail")),
		coat_param_int_if("floor", floor, !no_floor),
		coat_bucket(bucket),
	};
	coat_kv("kv.incr_by", params, COAT_COUNT(params), return_value);
}

PHP_FUNCTION(coatcheck_kv_flush_all)
{
	zend_string *bucket = NULL;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "|S", &bucket) == FAILURE) {
		RETURN_THROWS();
	}
	coat_param params[] = {coat_bucket(bucket)};
	coat_kv("kv.flush", params, COAT_COUNT(params), return_value);
}

/* ---- waiting ---- */

/* The daemon's list or map becomes ['value' => ..., 'version' => ...]; nil, the time being up, false. */
static bool coat_kv_wait(
	zend_string *key, zend_long version, zend_long timeout_ms, const zend_string *bucket, zval *result, coat_error *err)
{
	coat_param params[] = {
		coat_param_string("key", key),
		coat_param_int("version", version),
		coat_param_int("timeout_ms", timeout_ms),
		coat_bucket(bucket),
	};

	if (!coat_call("kv.wait", params, COAT_COUNT(params), timeout_ms, result, err)) {
		return false;
	}
	if (Z_TYPE_P(result) == IS_NULL) {
		ZVAL_FALSE(result);
	}
	return true;
}

static bool coat_check_wait_arguments(zend_long version, zend_long timeout_ms)
{
	if (version < 0) {
		zend_argument_value_error(2, "must be greater than or equal to 0");
		return false;
	}
	if (timeout_ms < 0 || timeout_ms > COAT_MAX_WAIT_MS) {
		zend_argument_value_error(3, "must be between 0 and %d", COAT_MAX_WAIT_MS);
		return false;
	}
	return true;
}

PHP_FUNCTION(coatcheck_kv_wait)
{
	zend_string *key, *bucket = NULL;
	zend_long version, timeout_ms;
	coat_error err = COAT_ERROR_INIT;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "Sll|S", &key, &version, &timeout_ms, &bucket) == FAILURE ||
		!coat_check_wait_arguments(version, timeout_ms)) {
		RETURN_THROWS();
	}
	if (!coat_kv_wait(key, version, timeout_ms, bucket, return_value, &err)) {
		coat_throw(&err, coat_functions_socket());
	}
}

/* ---- the ephpm_ aliases ---- */

PHP_FUNCTION(ephpm_kv_get)
{
	zend_string *key;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "S", &key) == FAILURE) {
		RETURN_THROWS();
	}
	coat_param params[] = {coat_param_string("key", key)};
	if (!coat_alias("kv.get", params, COAT_COUNT(params), return_value)) {
		RETURN_NULL();
	}
}

static void coat_alias_set(INTERNAL_FUNCTION_PARAMETERS, const char *method)
{
	zend_string *key, *value;
	zend_long ttl = 0;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "SS|l", &key, &value, &ttl) == FAILURE) {
		RETURN_THROWS();
	}
	ttl = MIN(ttl, (zend_long)COAT_MAX_TTL_S);
	coat_param params[] = {
		coat_param_string("key", key),
		coat_param_string("value", value),
		coat_param_int_if("ttl_ms", ttl * 1000, ttl > 0),
	};
	if (!coat_alias(method, params, COAT_COUNT(params), return_value)) {
		RETURN_FALSE;
	}
}

PHP_FUNCTION(ephpm_kv_set)
{
	coat_alias_set(INTERNAL_FUNCTION_PARAM_PASSTHRU, "kv.set");
}

PHP_FUNCTION(ephpm_kv_setnx)
{
	coat_alias_set(INTERNAL_FUNCTION_PARAM_PASSTHRU, "kv.setnx");
}

/* Functions of one key whose failure is false. */
static bool coat_alias_of_key(INTERNAL_FUNCTION_PARAMETERS, const char *method)
{
	zend_string *key;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "S", &key) == FAILURE) {
		return false;
	}
	coat_param params[] = {coat_param_string("key", key)};
	if (!coat_alias(method, params, COAT_COUNT(params), return_value)) {
		RETVAL_FALSE;
		return false;
	}
	return true;
}

PHP_FUNCTION(ephpm_kv_del)
{
	coat_alias_of_key(INTERNAL_FUNCTION_PARAM_PASSTHRU, "kv.del");
}

PHP_FUNCTION(ephpm_kv_exists)
{
	if (coat_alias_of_key(INTERNAL_FUNCTION_PARAM_PASSTHRU, "kv.exists")) {
		RETVAL_BOOL(coat_take_number(return_value) > 0);
	}
}

PHP_FUNCTION(ephpm_kv_pttl)
{
	coat_alias_of_key(INTERNAL_FUNCTION_PARAM_PASSTHRU, "kv.ttl");
}

PHP_FUNCTION(ephpm_kv_ttl)
{
	if (coat_alias_of_key(INTERNAL_FUNCTION_PARAM_PASSTHRU, "kv.ttl")) {
		RETVAL_LONG(coat_whole_seconds(coat_take_number(return_value)));
	}
}

PHP_FUNCTION(ephpm_kv_del_if_eq)
{
	zend_string *key, *token;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "SS", &key, &token) == FAILURE) {
		RETURN_THROWS();
	}
	coat_param params[] = {coat_param_string("key", key), coat_param_string("value", token)};
	if (!coat_alias("kv.del_if_eq", params, COAT_COUNT(params), return_value)) {
		RETURN_FALSE;
	}
}

static void coat_alias_incr(zend_string *key, zend_long delta, zval *return_value)
{
	coat_param params[] = {coat_param_string("key", key), coat_param_int("delta", delta)};

	if (!coat_alias("kv.incr_by", params, COAT_COUNT(params), return_value)) {
		RETURN_FALSE;
	}
}

static void coat_alias_step(INTERNAL_FUNCTION_PARAMETERS, zend_long delta)
{
	zend_string *key;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "S", &key) == FAILURE) {
		RETURN_THROWS();
	}
	coat_alias_incr(key, delta, return_value);
}

PHP_FUNCTION(ephpm_kv_incr)
{
	coat_alias_step(INTERNAL_FUNCTION_PARAM_PASSTHRU, 1);
}

PHP_FUNCTION(ephpm_kv_decr)
{
	coat_alias_step(INTERNAL_FUNCTION_PARAM_PASSTHRU, -1);
}

PHP_FUNCTION(ephpm_kv_incr_by)
{
	zend_string *key;
	zend_long delta;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "Sl", &key, &delta) == FAILURE) {
		RETURN_THROWS();
	}
	coat_alias_incr(key, delta, return_value);
}

PHP_FUNCTION(ephpm_kv_expire)
{
	zend_string *key;
	zend_long ttl;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "Sl", &key, &ttl) == FAILURE) {
		RETURN_THROWS();
	}
	ttl = MIN(ttl, (zend_long)COAT_MAX_TTL_S);
	if (ttl <= 0) {
		RETURN_FALSE;
	}
	coat_param params[] = {coat_param_string("key", key), coat_param_int("ttl_ms", ttl * 1000)};
	if (!coat_alias("kv.expire", params, COAT_COUNT(params), return_value)) {
		RETURN_FALSE;
	}
}

PHP_FUNCTION(ephpm_kv_flush_all)
{
	if (zend_parse_parameters_none() == FAILURE) {
		RETURN_THROWS();
	}
	if (!coat_alias("kv.flush", NULL, 0, return_value)) {
		RETURN_FALSE;
	}
}

PHP_FUNCTION(ephpm_kv_wait)
{
	zend_string *key;
	zend_long version, timeout_ms;
	coat_error err = COAT_ERROR_INIT;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "Sll", &key, &version, &timeout_ms) == FAILURE ||
		!coat_check_wait_arguments(version, timeout_ms)) {
		RETURN_THROWS();
	}
	if (!coat_kv_wait(key, version, timeout_ms, NULL, return_value, &err)) {
		zval_ptr_dtor(&err.details);
		php_error_docref(NULL, E_WARNING, "coatcheck at %s: %s", coat_functions_socket(), err.message);
		RETURN_FALSE;
	}
}
