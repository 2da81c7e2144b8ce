#include "error.h"
#include "message.h"
#include "exceptions.h"
#include "main/snprintf.h"
#include <stdarg.h>

void coat_error_set(coat_error *err, coat_error_kind kind, const char *format, ...)
{
	va_list arguments;

	err->kind = kind;
	err->reason[0] = '\0';
	err->outcome_unknown = false;
	va_start(arguments, format);
	ap_php_vsnprintf(err->message, sizeof(err->message), format, arguments);
	va_end(arguments);
}

void coat_error_from_daemon(coat_error *err, const char *method, const msgpack_object *error)
{
	const msgpack_object_array *parts = &error->via.array;
	const msgpack_object_str *sentence;
	char code[32];
	size_t prefix = strlen(method);

	if (error->type != MSGPACK_OBJECT_ARRAY || parts->size != 3 || parts->ptr[0].type != MSGPACK_OBJECT_STR ||
		parts->ptr[1].type != MSGPACK_OBJECT_STR) {
		coat_error_set(err, COAT_ERROR_PROTOCOL, "%s: the daemon's error is not [code, message, details]", method);
		return;
	}
	sentence = &parts->ptr[1].via.str;
	snprintf(code, sizeof(code), "%.*s", (int)MIN(parts->ptr[0].via.str.size, sizeof(code)), parts->ptr[0].via.str.ptr);
	/* the daemon names the method itself in some of its sentences */
	if (sentence->size > prefix && memcmp(sentence->ptr, method, prefix) == 0) {
		method = "";
	}
	coat_error_set(err, coat_error_kind_of_code(code), "%s%s%.*s", method, *method ? ": " : "",
		(int)MIN(sentence->size, sizeof(err->message)), sentence->ptr);
	coat_map_text(&parts->ptr[2], "reason", err->reason, sizeof(err->reason));
}

void coat_error_keep_details(coat_error *err, const msgpack_object *error)
{
	if (error->type == MSGPACK_OBJECT_ARRAY && error->via.array.size == 3 &&
		error->via.array.ptr[2].type == MSGPACK_OBJECT_MAP) {
		coat_to_zval(&err->details, &error->via.array.ptr[2]);
	}
}
