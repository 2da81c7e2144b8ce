#include "exceptions.h"
#include "zend_exceptions.h"
#include "ext/spl/spl_exceptions.h"

static zend_class_entry *coat_exception_ce;

/* The one table. A kind without a wire code is the client's own. What has no line here, "internal"
 * and codes of later daemons, is a plain Coatcheck\Exception. */
static struct {
	coat_error_kind kind;
	const char *code;
	const char *class_name;
	zend_class_entry *ce;
} coat_kinds[] = {
	{COAT_ERROR_CONNECTION, NULL, "Coatcheck\\ConnectionException", NULL},
	{COAT_ERROR_TIMEOUT, NULL, "Coatcheck\\TimeoutException", NULL},
	{COAT_ERROR_BUSY, "busy", "Coatcheck\\BusyException", NULL},
	{COAT_ERROR_REFUSED, "refused", "Coatcheck\\RefusedException", NULL},
	{COAT_ERROR_UNREACHABLE, "unreachable", "Coatcheck\\UnreachableOwnerException", NULL},
	{COAT_ERROR_TOO_LARGE, "too_large", "Coatcheck\\TooLargeException", NULL},
	{COAT_ERROR_PROTOCOL, "protocol", "Coatcheck\\ProtocolException", NULL},
	{COAT_ERROR_UNAVAILABLE, "unavailable", "Coatcheck\\UnavailableException", NULL},
};

#define COAT_KINDS (sizeof(coat_kinds) / sizeof(coat_kinds[0]))

static zend_class_entry *coat_register_class(const char *name, zend_class_entry *parent)
{
	zend_class_entry ce;

	INIT_CLASS_ENTRY_EX(ce, name, strlen(name), NULL);
	return zend_register_internal_class_ex(&ce, parent);
}

static void coat_declare_property(const char *name, zval *preset, uint32_t type_mask)
{
	zend_string *key = zend_string_init_interned(name, strlen(name), 1);

	zend_declare_typed_property(
		coat_exception_ce, key, preset, ZEND_ACC_PUBLIC, NULL, (zend_type)ZEND_TYPE_INIT_MASK(type_mask));
}

void coat_register_exceptions(void)
{
	zval preset;

	coat_exception_ce = coat_register_class("Coatcheck\\Exception", spl_ce_RuntimeException);
	ZVAL_EMPTY_STRING(&preset);
	coat_declare_property("reason", &preset, MAY_BE_STRING);
	ZVAL_EMPTY_ARRAY(&preset);
	coat_declare_property("details", &preset, MAY_BE_ARRAY);
	for (size_t i = 0; i < COAT_KINDS; i++) {
		coat_kinds[i].ce = coat_register_class(coat_kinds[i].class_name, coat_exception_ce);
	}
}

coat_error_kind coat_error_kind_of_code(const char *code)
{
	for (size_t i = 0; i < COAT_KINDS; i++) {
		if (coat_kinds[i].code && strcmp(coat_kinds[i].code, code) == 0) {
			return coat_kinds[i].kind;
		}
	}
	return COAT_ERROR_INTERNAL;
}

static zend_class_entry *coat_class_of_kind(coat_error_kind kind)
{
	for (size_t i = 0; i < COAT_KINDS; i++) {
		if (coat_kinds[i].kind == kind) {
			return coat_kinds[i].ce;
		}
	}
	return coat_exception_ce;
}

void coat_exception_create(zval *exception, coat_error *err, const char *socket)
{
	zend_string *message = zend_strpprintf(0, "coatcheck at %s: %s", socket, err->message);
	zval value;

	object_init_ex(exception, coat_class_of_kind(err->kind));
	ZVAL_STR(&value, message);
	zend_update_property_ex(zend_ce_exception, Z_OBJ_P(exception), ZSTR_KNOWN(ZEND_STR_MESSAGE), &value);
	zend_string_release(message);
	zend_update_property_string(coat_exception_ce, Z_OBJ_P(exception), ZEND_STRL("reason"), err->reason);
	if (err->limit > 0) {
		array_init(&err->details);
		add_assoc_long(&err->details, "size", (zend_long)err->size);
		add_assoc_long(&err->details, "limit", (zend_long)err->limit);
	}
	if (!Z_ISUNDEF(err->details)) {
		zend_update_property(coat_exception_ce, Z_OBJ_P(exception), ZEND_STRL("details"), &err->details);
		zval_ptr_dtor(&err->details);
		ZVAL_UNDEF(&err->details);
	}
}

void coat_throw(coat_error *err, const char *socket)
{
	zval exception;

	if (err->kind == COAT_ERROR_ARGUMENT) {
		zend_value_error("%s", err->message);
		return;
	}
	coat_exception_create(&exception, err, socket);
	zend_throw_exception_object(&exception);
}
