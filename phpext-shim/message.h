/*
 * MessagePack on both sides of the extension: parameters and PHP values into bytes, bytes into
 * PHP values, and the look-ups that the session handler needs in a reply without making any.
 *
 * Nothing that arrives is trusted: coat_unpack walks the bytes first and refuses lengths beyond
 * what arrived, containers nested deeper than COAT_MAX_DEPTH and extension types, so that the
 * library never allocates for a count that no bytes stand behind.
 */

#ifndef COATCHECK_MESSAGE_H
#define COATCHECK_MESSAGE_H

#include "php.h"
#include <msgpack.h>
#include "error.h"

/* The protocol's limit of nested containers, the message itself being the first. */
#define COAT_MAX_DEPTH 16

/* A growing byte buffer that outlives requests. */
typedef struct {
	char *data;
	size_t length;
	size_t capacity;
} coat_buffer;

/* Makes room for at least `extra` more bytes. */
void coat_buffer_reserve(coat_buffer *buffer, size_t extra);
void coat_buffer_free(coat_buffer *buffer);

/* Gives memory back when an unusually large message made the buffer grow. */
void coat_buffer_trim(coat_buffer *buffer);

/* The callback with which msgpack_packer writes into a coat_buffer. */
int coat_buffer_write(void *buffer, const char *bytes, size_t length);

/* One named parameter of a call. Absent ones are not sent at all. */
typedef struct {
	const char *name;
	enum { COAT_PARAM_ABSENT, COAT_PARAM_BOOL, COAT_PARAM_INT, COAT_PARAM_STRING, COAT_PARAM_VALUE } type;
	union {
		bool flag;
		int64_t number;
		struct {
			const char *bytes;
			size_t length;
		} string;
		zval *value;
	} as;
} coat_param;

coat_param coat_param_flag(const char *name, bool flag); /* absent when false */
coat_param coat_param_int(const char *name, int64_t number);
coat_param coat_param_int_if(const char *name, int64_t number, bool present);
coat_param coat_param_bytes(const char *name, const char *bytes, size_t length);
coat_param coat_param_string(const char *name, const zend_string *string); /* absent when NULL */
coat_param coat_param_value(const char *name, zval *value);

/* Packs the parameters as a map. False with err set when a value cannot be sent. */
bool coat_pack_params(msgpack_packer *packer, const coat_param *params, size_t count, coat_error *err);

/* Packs a PHP array as the map of parameters: integer keys become strings. */
bool coat_pack_array_as_params(msgpack_packer *packer, HashTable *params, coat_error *err);

/* Unpacks exactly `length` bytes. The result points into `bytes` and is freed by msgpack_unpacked_destroy. */
bool coat_unpack(msgpack_unpacked *result, const char *bytes, size_t length);

/* Makes a PHP value of a message part. */
void coat_to_zval(zval *value, const msgpack_object *object);

/* Look-ups in a map; NULL or false when the key is absent or of another type. */
const msgpack_object *coat_map_find(const msgpack_object *map, const char *key);
bool coat_map_bool(const msgpack_object *map, const char *key, bool *flag);
bool coat_map_uint(const msgpack_object *map, const char *key, uint64_t *number);
bool coat_map_bytes(const msgpack_object *map, const char *key, const char **bytes, size_t *length);

/* Copies a text of a map into a C string, cut to size; "" when it is absent. */
void coat_map_text(const msgpack_object *map, const char *key, char *text, size_t size);

#endif
