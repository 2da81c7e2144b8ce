#include "message.h"

/* ---- buffer ---- */

#define COAT_BUFFER_KEEP (256 * 1024)

void coat_buffer_reserve(coat_buffer *buffer, size_t extra)
{
	size_t needed = buffer->length + extra;
	size_t capacity = buffer->capacity ? buffer->capacity : 4096;

	if (needed <= buffer->capacity) {
		return;
	}
	while (capacity < needed) {
		capacity *= 2;
	}
	buffer->data = perealloc(buffer->data, capacity, 1);
	buffer->capacity = capacity;
}

void coat_buffer_free(coat_buffer *buffer)
{
	if (buffer->data) {
		pefree(buffer->data, 1);
	}
	memset(buffer, 0, sizeof(*buffer));
}

void coat_buffer_trim(coat_buffer *buffer)
{
	if (buffer->capacity > COAT_BUFFER_KEEP) {
		coat_buffer_free(buffer);
	}
}

int coat_buffer_write(void *target, const char *bytes, size_t length)
{
	coat_buffer *buffer = target;

	coat_buffer_reserve(buffer, length);
	memcpy(buffer->data + buffer->length, bytes, length);
	buffer->length += length;
	return 0;
}

/* ---- parameters ---- */

coat_param coat_param_flag(const char *name, bool flag)
{
	coat_param param = {name, flag ? COAT_PARAM_BOOL : COAT_PARAM_ABSENT, {.flag = flag}};
	return param;
}

coat_param coat_param_int_if(const char *name, int64_t number, bool present)
{
	coat_param param = {name, present ? COAT_PARAM_INT : COAT_PARAM_ABSENT, {.number = number}};
	return param;
}

coat_param coat_param_int(const char *name, int64_t number)
{
	return coat_param_int_if(name, number, true);
}

coat_param coat_param_bytes(const char *name, const char *bytes, size_t length)
{
	coat_param param = {name, COAT_PARAM_STRING, {.string = {bytes, length}}};
	return param;
}

coat_param coat_param_string(const char *name, const zend_string *string)
{
	coat_param absent = {name, COAT_PARAM_ABSENT, {.flag = false}};

	return string ? coat_param_bytes(name, ZSTR_VAL(string), ZSTR_LEN(string)) : absent;
}

coat_param coat_param_value(const char *name, zval *value)
{
	coat_param param = {name, value ? COAT_PARAM_VALUE : COAT_PARAM_ABSENT, {.value = value}};
	return param;
}

/* ---- packing ---- */

/* A length that MessagePack cannot express is far above any frame limit: it is cut to what can be
 * written, and the limit check names the true size of the frame. */
static bool coat_pack_bytes(msgpack_packer *packer, const char *bytes, size_t length, coat_error *err)
{
	if (length > UINT32_MAX) {
		coat_error_set(err, COAT_ERROR_TOO_LARGE, "a string of %zu bytes fits in no frame", length);
		return false;
	}
	msgpack_pack_str(packer, length);
	msgpack_pack_str_body(packer, bytes, length);
	return true;
}

static bool coat_pack_zval(msgpack_packer *packer, zval *value, int depth, coat_error *err);

static bool coat_pack_map(msgpack_packer *packer, HashTable *map, int depth, coat_error *err)
{
	zend_string *key;
	zend_ulong index;
	zval *value;

	msgpack_pack_map(packer, zend_hash_num_elements(map));
	ZEND_HASH_FOREACH_KEY_VAL(map, index, key, value)
	{
		char digits[MAX_LENGTH_OF_LONG];
		const char *name = key ? ZSTR_VAL(key) : digits;
		size_t length = key ? ZSTR_LEN(key) : (size_t)snprintf(digits, sizeof(digits), ZEND_LONG_FMT, (zend_long)index);

		if (!coat_pack_bytes(packer, name, length, err) || !coat_pack_zval(packer, value, depth, err)) {
			return false;
		}
	}
	ZEND_HASH_FOREACH_END();
	return true;
}

static bool coat_pack_list(msgpack_packer *packer, HashTable *list, int depth, coat_error *err)
{
	zval *value;

	msgpack_pack_array(packer, zend_hash_num_elements(list));
	ZEND_HASH_FOREACH_VAL(list, value)
	{
		if (!coat_pack_zval(packer, value, depth, err)) {
			return false;
		}
	}
	ZEND_HASH_FOREACH_END();
	return true;
}

static bool coat_pack_array(msgpack_packer *packer, HashTable *array, int depth, coat_error *err)
{
	if (depth >= COAT_MAX_DEPTH) {
		coat_error_set(err, COAT_ERROR_ARGUMENT, "must not nest arrays more than %d deep", COAT_MAX_DEPTH - 2);
		return false;
	}
	return zend_array_is_list(array) ? coat_pack_list(packer, array, depth + 1, err)
	                                 : coat_pack_map(packer, array, depth + 1, err);
}

static bool coat_pack_zval(msgpack_packer *packer, zval *value, int depth, coat_error *err)
{
	ZVAL_DEREF(value);
	switch (Z_TYPE_P(value)) {
		case IS_NULL:
			msgpack_pack_nil(packer);
			return true;
		case IS_FALSE:
			msgpack_pack_false(packer);
			return true;
		case IS_TRUE:
			msgpack_pack_true(packer);
			return true;
		case IS_LONG:
			msgpack_pack_int64(packer, Z_LVAL_P(value));
			return true;
		case IS_DOUBLE:
			msgpack_pack_double(packer, Z_DVAL_P(value));
			return true;
		case IS_STRING:
			return coat_pack_bytes(packer, Z_STRVAL_P(value), Z_STRLEN_P(value), err);
		case IS_ARRAY:
			return coat_pack_array(packer, Z_ARRVAL_P(value), depth, err);
		default:
			coat_error_set(err, COAT_ERROR_ARGUMENT,
				"must hold only null, bool, int, float, string and array, %s given", zend_zval_type_name(value));
			return false;
	}
}

static bool coat_pack_param(msgpack_packer *packer, const coat_param *param, coat_error *err)
{
	if (!coat_pack_bytes(packer, param->name, strlen(param->name), err)) {
		return false;
	}
	switch (param->type) {
		case COAT_PARAM_BOOL:
			msgpack_pack_true(packer);
			return true;
		case COAT_PARAM_INT:
			msgpack_pack_int64(packer, param->as.number);
			return true;
		case COAT_PARAM_STRING:
			return coat_pack_bytes(packer, param->as.string.bytes, param->as.string.length, err);
		case COAT_PARAM_VALUE:
			return coat_pack_zval(packer, param->as.value, 2, err);
		case COAT_PARAM_ABSENT:
			break;
	}
	return true;
}

bool coat_pack_params(msgpack_packer *packer, const coat_param *params, size_t count, coat_error *err)
{
	size_t present = 0;

	for (size_t i = 0; i < count; i++) {
		present += params[i].type != COAT_PARAM_ABSENT;
	}
	msgpack_pack_map(packer, present);
	for (size_t i = 0; i < count; i++) {
		if (params[i].type != COAT_PARAM_ABSENT && !coat_pack_param(packer, &params[i], err)) {
			return false;
		}
	}
	return true;
}

bool coat_pack_array_as_params(msgpack_packer *packer, HashTable *params, coat_error *err)
{
	if (!params) {
		msgpack_pack_map(packer, 0);
		return true;
	}
	return coat_pack_map(packer, params, 2, err);
}

/* ---- unpacking ---- */

typedef struct {
	const uint8_t *at;
	const uint8_t *end;
} coat_cursor;

static bool coat_skip_bytes(coat_cursor *cursor, uint64_t length)
{
	if (length > (uint64_t)(cursor->end - cursor->at)) {
		return false;
	}
	cursor->at += length;
	return true;
}

/* Reads a big endian number of `width` bytes. */
static bool coat_take_number(coat_cursor *cursor, int width, uint64_t *number)
{
	if (cursor->end - cursor->at < width) {
		return false;
	}
	*number = 0;
	while (width-- > 0) {
		*number = *number << 8 | *cursor->at++;
	}
	return true;
}

static bool coat_check_value(coat_cursor *cursor, int depth);

static bool coat_check_values(coat_cursor *cursor, uint64_t count, int depth)
{
	if (depth >= COAT_MAX_DEPTH || count > (uint64_t)(cursor->end - cursor->at)) {
		return false;
	}
	while (count-- > 0) {
		if (!coat_check_value(cursor, depth + 1)) {
			return false;
		}
	}
	return true;
}

/* Checks a value whose size stands in `width` bytes after its first one. */
static bool coat_check_sized(coat_cursor *cursor, int width, uint64_t per_item, bool container, int depth)
{
	uint64_t count;

	if (!coat_take_number(cursor, width, &count)) {
		return false;
	}
	return container ? coat_check_values(cursor, count * per_item, depth) : coat_skip_bytes(cursor, count);
}

static bool coat_check_value(coat_cursor *cursor, int depth)
{
	uint8_t first;

	if (cursor->at == cursor->end) {
		return false;
	}
	first = *cursor->at++;
	if (first <= 0x7f || first >= 0xe0) { /* small integers */
		return true;
	}
	if (first <= 0x8f) { /* small map */
		return coat_check_values(cursor, 2 * (first & 0x0f), depth);
	}
	if (first <= 0x9f) { /* small array */
		return coat_check_values(cursor, first & 0x0f, depth);
	}
	if (first <= 0xbf) { /* small string */
		return coat_skip_bytes(cursor, first & 0x1f);
	}
	switch (first) {
		case 0xc0: /* nil, false, true */
		case 0xc2:
		case 0xc3:
			return true;
		case 0xc4: /* bin 8, 16, 32 */
		case 0xc5:
		case 0xc6:
			return coat_check_sized(cursor, 1 << (first - 0xc4), 1, false, depth);
		case 0xca: /* float 32, 64 */
		case 0xcb:
			return coat_skip_bytes(cursor, 4 << (first - 0xca));
		case 0xcc: /* unsigned and signed integers of 1, 2, 4 and 8 bytes */
		case 0xcd:
		case 0xce:
		case 0xcf:
			return coat_skip_bytes(cursor, 1 << (first - 0xcc));
		case 0xd0:
		case 0xd1:
		case 0xd2:
		case 0xd3:
			return coat_skip_bytes(cursor, 1 << (first - 0xd0));
		case 0xd9: /* str 8, 16, 32 */
		case 0xda:
		case 0xdb:
			return coat_check_sized(cursor, 1 << (first - 0xd9), 1, false, depth);
		case 0xdc: /* array 16, 32 */
		case 0xdd:
			return coat_check_sized(cursor, 2 << (first - 0xdc), 1, true, depth);
		case 0xde: /* map 16, 32 */
		case 0xdf:
			return coat_check_sized(cursor, 2 << (first - 0xde), 2, true, depth);
		default: /* extension types and the byte that is never used */
			return false;
	}
}

bool coat_unpack(msgpack_unpacked *result, const char *bytes, size_t length)
{
	coat_cursor cursor = {(const uint8_t *)bytes, (const uint8_t *)bytes + length};
	size_t offset = 0;

	if (!coat_check_value(&cursor, 0) || cursor.at != cursor.end) {
		return false;
	}
	return msgpack_unpack_next(result, bytes, length, &offset) == MSGPACK_UNPACK_SUCCESS;
}

static void coat_bytes_to_zval(zval *value, const char *bytes, size_t length)
{
	if (length <= 1) {
		ZVAL_INTERNED_STR(value, length ? ZSTR_CHAR((zend_uchar)bytes[0]) : ZSTR_EMPTY_ALLOC());
	} else {
		ZVAL_STRINGL(value, bytes, length);
	}
}

static void coat_map_to_zval(zval *value, const msgpack_object_map *map)
{
	array_init_size(value, map->size);
	for (uint32_t i = 0; i < map->size; i++) {
		const msgpack_object *key = &map->ptr[i].key;
		zval item, name;

		coat_to_zval(&item, &map->ptr[i].val);
		coat_to_zval(&name, key);
		if (Z_TYPE(name) == IS_STRING) {
			zend_symtable_update(Z_ARRVAL_P(value), Z_STR(name), &item);
		} else {
			zend_hash_index_update(Z_ARRVAL_P(value), zval_get_long(&name), &item);
		}
		zval_ptr_dtor(&name);
	}
}

static void coat_list_to_zval(zval *value, const msgpack_object_array *list)
{
	array_init_size(value, list->size);
	for (uint32_t i = 0; i < list->size; i++) {
		zval item;

		coat_to_zval(&item, &list->ptr[i]);
		zend_hash_next_index_insert_new(Z_ARRVAL_P(value), &item);
	}
}

void coat_to_zval(zval *value, const msgpack_object *object)
{
	switch (object->type) {
		case MSGPACK_OBJECT_BOOLEAN:
			ZVAL_BOOL(value, object->via.boolean);
			break;
		case MSGPACK_OBJECT_POSITIVE_INTEGER:
			if (object->via.u64 <= ZEND_LONG_MAX) {
				ZVAL_LONG(value, (zend_long)object->via.u64);
			} else {
				ZVAL_DOUBLE(value, (double)object->via.u64);
			}
			break;
		case MSGPACK_OBJECT_NEGATIVE_INTEGER:
			ZVAL_LONG(value, (zend_long)object->via.i64);
			break;
		case MSGPACK_OBJECT_FLOAT32:
		case MSGPACK_OBJECT_FLOAT64:
			ZVAL_DOUBLE(value, object->via.f64);
			break;
		case MSGPACK_OBJECT_STR:
			coat_bytes_to_zval(value, object->via.str.ptr, object->via.str.size);
			break;
		case MSGPACK_OBJECT_BIN:
			coat_bytes_to_zval(value, object->via.bin.ptr, object->via.bin.size);
			break;
		case MSGPACK_OBJECT_ARRAY:
			coat_list_to_zval(value, &object->via.array);
			break;
		case MSGPACK_OBJECT_MAP:
			coat_map_to_zval(value, &object->via.map);
			break;
		default: /* nil; coat_unpack lets no extension type pass */
			ZVAL_NULL(value);
			break;
	}
}

/* ---- look-ups ---- */

const msgpack_object *coat_map_find(const msgpack_object *map, const char *key)
{
	size_t length = strlen(key);

	if (!map || map->type != MSGPACK_OBJECT_MAP) {
		return NULL;
	}
	for (uint32_t i = 0; i < map->via.map.size; i++) {
		const msgpack_object *name = &map->via.map.ptr[i].key;

		if (name->type == MSGPACK_OBJECT_STR && name->via.str.size == length &&
			memcmp(name->via.str.ptr, key, length) == 0) {
			return &map->via.map.ptr[i].val;
		}
	}
	return NULL;
}

bool coat_map_bool(const msgpack_object *map, const char *key, bool *flag)
{
	const msgpack_object *found = coat_map_find(map, key);

	if (!found || found->type != MSGPACK_OBJECT_BOOLEAN) {
		return false;
	}
	*flag = found->via.boolean;
	return true;
}

bool coat_map_uint(const msgpack_object *map, const char *key, uint64_t *number)
{
	const msgpack_object *found = coat_map_find(map, key);

	if (!found || found->type != MSGPACK_OBJECT_POSITIVE_INTEGER) {
		return false;
	}
	*number = found->via.u64;
	return true;
}

bool coat_map_bytes(const msgpack_object *map, const char *key, const char **bytes, size_t *length)
{
	const msgpack_object *found = coat_map_find(map, key);

	if (!found || (found->type != MSGPACK_OBJECT_STR && found->type != MSGPACK_OBJECT_BIN)) {
		return false;
	}
	/* str and bin have the same layout, but the standard lets us read only the one that is meant */
	*bytes = found->type == MSGPACK_OBJECT_STR ? found->via.str.ptr : found->via.bin.ptr;
	*length = found->type == MSGPACK_OBJECT_STR ? found->via.str.size : found->via.bin.size;
	return true;
}

void coat_map_text(const msgpack_object *map, const char *key, char *text, size_t size)
{
	const char *bytes = "";
	size_t length = 0;

	coat_map_bytes(map, key, &bytes, &length);
	length = MIN(length, size - 1);
	memcpy(text, bytes, length);
	text[length] = '\0';
}
