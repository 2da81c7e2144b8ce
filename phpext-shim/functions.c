#include "functions.h"
#include "exceptions.h"
#include "php_coatcheck.h"
#include "session.h"

const char *coat_functions_socket(void)
{
	const char *socket = COAT_G(socket);

	return strncasecmp(socket, "unix://", 7) == 0 ? socket + 7 : socket;
}

static coat_connection *coat_functions_connection(void)
{
	return coat_connection_for(coat_functions_socket());
}

/* ---- one call ---- */

typedef struct {
	zval *result;
	coat_error *err;
	const char *method;
} coat_answer;

static void coat_take_answer(void *context, uint32_t index, const msgpack_object *error, const msgpack_object *result)
{
	coat_answer *answer = context;

	if (error) {
		coat_error_from_daemon(answer->err, answer->method, error);
		coat_error_keep_details(answer->err, error);
	} else {
		coat_to_zval(answer->result, result);
	}
}

/* The daemon's own error counts as a failure here, too. */
static bool coat_exchange_one(coat_batch *batch, zval *result, coat_error *err)
{
	coat_error daemon_error = COAT_ERROR_INIT;
	coat_answer answer = {result, &daemon_error, batch->method};

	ZVAL_UNDEF(result);
	if (!coat_exchange(batch, coat_take_answer, &answer, err)) {
		return false;
	}
	if (daemon_error.kind != COAT_ERROR_NONE) {
		*err = daemon_error;
		return false;
	}
	return true;
}

bool coat_call(
	const char *method, const coat_param *params, size_t count, zend_long extra_wait_ms, zval *result, coat_error *err)
{
	coat_batch batch;

	coat_batch_begin(
		&batch, coat_functions_connection(), COAT_G(connect_timeout_ms), COAT_G(timeout_ms) + extra_wait_ms);
	return coat_batch_add(&batch, method, params, count, err) && coat_exchange_one(&batch, result, err);
}

/* ---- calls from PHP ---- */

#define COAT_MAX_WAIT_MS (24 * 3600 * 1000)

static zend_long coat_wait_of(HashTable *params, const char *name)
{
	zval *wait = params ? zend_hash_str_find_deref(params, name, strlen(name)) : NULL;

	return wait && Z_TYPE_P(wait) == IS_LONG ? MAX(0, MIN(Z_LVAL_P(wait), COAT_MAX_WAIT_MS)) : 0;
}

/* How long a request itself asks the daemon to wait. */
static zend_long coat_requested_wait_ms(zend_string *method, HashTable *params)
{
	if (zend_string_equals_literal(method, "kv.wait")) {
		return coat_wait_of(params, "timeout_ms");
	}
	if (zend_string_equals_literal(method, "lock.acquire") || zend_string_equals_literal(method, "session.open")) {
		return coat_wait_of(params, "wait_ms");
	}
	return 0;
}

/* May this request leave a lock that ends with the PHP request? */
static bool coat_may_bind(zend_string *method, HashTable *params)
{
	zval *bound = params ? zend_hash_str_find_deref(params, ZEND_STRL("bound")) : NULL;

	return zend_string_equals_literal(method, "session.open") ||
	       (zend_string_equals_literal(method, "lock.acquire") && bound && zend_is_true(bound));
}

static bool coat_add_php_call(coat_batch *batch, zend_string *method, HashTable *params, coat_error *err)
{
	batch->bound_lock = batch->bound_lock || coat_may_bind(method, params);
	return coat_batch_add_array(batch, method, params, err);
}

PHP_FUNCTION(coatcheck_call)
{
	zend_string *method;
	HashTable *params = NULL;
	zend_long timeout_ms = 0;
	bool default_timeout = true;
	coat_batch batch;
	coat_error err = COAT_ERROR_INIT;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "S|hl!", &method, &params, &timeout_ms, &default_timeout) == FAILURE) {
		RETURN_THROWS();
	}
	if (default_timeout) {
		timeout_ms = COAT_G(timeout_ms) + coat_requested_wait_ms(method, params);
	} else if (timeout_ms < 1) {
		zend_argument_value_error(3, "must be null or greater than 0");
		RETURN_THROWS();
	}
	coat_batch_begin(&batch, coat_functions_connection(), COAT_G(connect_timeout_ms), timeout_ms);
	if (!coat_add_php_call(&batch, method, params, &err)) {
		if (err.kind == COAT_ERROR_ARGUMENT) {
			zend_argument_value_error(2, "%s", err.message);
			RETURN_THROWS();
		}
	} else if (coat_exchange_one(&batch, return_value, &err)) {
		return;
	}
	coat_throw(&err, coat_functions_socket());
	RETURN_THROWS();
}

/* ---- pipeline ---- */

typedef struct {
	zend_string *method;
	zval answer;
} coat_slot;

typedef struct {
	HashTable *calls;
	coat_slot *slots; /* one for each call, in their order */
} coat_pipeline;

static void coat_take_pipeline_answer(
	void *context, uint32_t index, const msgpack_object *error, const msgpack_object *result)
{
	coat_slot *slot = &((coat_pipeline *)context)->slots[index];
	coat_error err = COAT_ERROR_INIT;

	if (!error) {
		coat_to_zval(&slot->answer, result);
		return;
	}
	coat_error_from_daemon(&err, ZSTR_VAL(slot->method), error);
	coat_error_keep_details(&err, error);
	coat_exception_create(&slot->answer, &err, coat_functions_socket());
}

/* Adds a call [method, params]; false with an exception thrown when it is none. */
static bool coat_pipeline_add(coat_batch *batch, coat_slot *slot, zval *call, zend_long *wait_ms)
{
	zval *method = NULL, *params = NULL;
	coat_error err = COAT_ERROR_INIT;
	HashTable *map;

	ZVAL_DEREF(call);
	if (Z_TYPE_P(call) == IS_ARRAY) {
		method = zend_hash_index_find_deref(Z_ARRVAL_P(call), 0);
		params = zend_hash_index_find_deref(Z_ARRVAL_P(call), 1);
	}
	if (!method || Z_TYPE_P(method) != IS_STRING || (params && Z_TYPE_P(params) != IS_ARRAY)) {
		zend_argument_type_error(1, "must be a list of [string method, array params]");
		return false;
	}
	slot->method = Z_STR_P(method);
	map = params ? Z_ARRVAL_P(params) : NULL;
	*wait_ms = MAX(*wait_ms, coat_requested_wait_ms(Z_STR_P(method), map));
	if (coat_add_php_call(batch, Z_STR_P(method), map, &err)) {
		return true;
	}
	if (err.kind == COAT_ERROR_ARGUMENT) {
		zend_argument_value_error(1, "%s", err.message);
	} else {
		coat_throw(&err, coat_functions_socket());
	}
	return false;
}

static void coat_pipeline_results(zval *return_value, coat_pipeline *pipeline)
{
	zend_string *key;
	zend_ulong index;
	uint32_t at = 0;

	array_init_size(return_value, zend_hash_num_elements(pipeline->calls));
	ZEND_HASH_FOREACH_KEY(pipeline->calls, index, key)
	{
		if (key) {
			zend_hash_add_new(Z_ARRVAL_P(return_value), key, &pipeline->slots[at++].answer);
		} else {
			zend_hash_index_add_new(Z_ARRVAL_P(return_value), index, &pipeline->slots[at++].answer);
		}
	}
	ZEND_HASH_FOREACH_END();
}

static void coat_pipeline_free(coat_pipeline *pipeline, coat_batch *batch, bool with_answers)
{
	for (uint32_t i = 0; with_answers && i < zend_hash_num_elements(pipeline->calls); i++) {
		zval_ptr_dtor(&pipeline->slots[i].answer);
	}
	efree(pipeline->slots);
	efree(batch->is_answered);
}

PHP_FUNCTION(coatcheck_pipeline)
{
	coat_pipeline pipeline = {NULL, NULL};
	coat_error err = COAT_ERROR_INIT;
	coat_batch batch;
	zend_long wait_ms = 0;
	bool sent = true;
	zval *call;

	if (zend_parse_parameters(ZEND_NUM_ARGS(), "h", &pipeline.calls) == FAILURE) {
		RETURN_THROWS();
	}
	if (zend_hash_num_elements(pipeline.calls) == 0) {
		RETURN_EMPTY_ARRAY();
	}
	coat_batch_begin(&batch, coat_functions_connection(), COAT_G(connect_timeout_ms), COAT_G(timeout_ms));
	pipeline.slots = ecalloc(zend_hash_num_elements(pipeline.calls), sizeof(coat_slot));
	batch.is_answered = ecalloc(zend_hash_num_elements(pipeline.calls), sizeof(bool));
	ZEND_HASH_FOREACH_VAL(pipeline.calls, call)
	{
		if (!coat_pipeline_add(&batch, &pipeline.slots[batch.count], call, &wait_ms)) {
			coat_pipeline_free(&pipeline, &batch, false);
			RETURN_THROWS();
		}
	}
	ZEND_HASH_FOREACH_END();
	batch.timeout_ms += wait_ms;
	sent = coat_exchange(&batch, coat_take_pipeline_answer, &pipeline, &err);
	if (sent) {
		coat_pipeline_results(return_value, &pipeline);
	}
	coat_pipeline_free(&pipeline, &batch, !sent);
	if (!sent) {
		coat_throw(&err, coat_functions_socket());
	}
}

/* ---- the session's lock ---- */

PHP_FUNCTION(coatcheck_session_info)
{
	ZEND_PARSE_PARAMETERS_NONE();
	coat_session_info(return_value);
}
