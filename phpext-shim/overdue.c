#include "overdue.h"

static void coat_overdue_bound(coat_overdue **list)
{
	int kept = 0;

	while (*list && kept < COAT_OVERDUE_MAX) {
		list = &(*list)->next;
		kept++;
	}
	coat_overdue_forget(list);
}

void coat_overdue_keep(coat_overdue **list, const coat_grant *grant)
{
	size_t size = grant->id_length + grant->prefix_length + grant->token_length;
	coat_overdue *overdue = pemalloc(sizeof(*overdue) + size, 1);
	char *bytes = overdue->bytes;

	overdue->request_id = 0;
	overdue->id_length = grant->id_length;
	overdue->prefix_length = grant->prefix_length;
	overdue->token_length = grant->token_length;
	memcpy(bytes, grant->id, grant->id_length);
	memcpy(bytes += grant->id_length, grant->prefix, grant->prefix_length);
	memcpy(bytes + grant->prefix_length, grant->token, grant->token_length);
	overdue->next = *list;
	*list = overdue;
	coat_overdue_bound(list);
}

coat_grant coat_overdue_grant(const coat_overdue *overdue)
{
	const char *prefix = overdue->bytes + overdue->id_length;

	return (coat_grant){
		.id = overdue->bytes,
		.id_length = overdue->id_length,
		.prefix = prefix,
		.prefix_length = overdue->prefix_length,
		.token = prefix + overdue->prefix_length,
		.token_length = overdue->token_length,
	};
}

coat_overdue **coat_overdue_find(coat_overdue **list, uint64_t request_id)
{
	while (*list && ((*list)->request_id == 0 || (*list)->request_id != request_id)) {
		list = &(*list)->next;
	}
	return *list ? list : NULL;
}

void coat_overdue_remove(coat_overdue **at)
{
	coat_overdue *overdue = *at;

	*at = overdue->next;
	pefree(overdue, 1);
}

void coat_overdue_forget(coat_overdue **list)
{
	while (*list) {
		coat_overdue_remove(list);
	}
}
