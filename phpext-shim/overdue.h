/*
 * Overdue releases: session locks that were given up while nobody confirmed it.
 *
 * A session.open whose answer never came may have been granted, and a release whose answer never came may be lost.
 * With a data directory such a grant outlives the daemon that made it, and would keep everybody out until its lease
 * ends. So the token is kept beside its connection, and session.release goes out in front of the next batch of this
 * process, until the daemon has answered it.
 *
 * Only a token that no session will open with again may come here. The list belongs to the process: a forked child
 * forgets it. It is bounded, and the oldest gives way: that lock then ends with its lease.
 */

#ifndef COATCHECK_OVERDUE_H
#define COATCHECK_OVERDUE_H

#include "php.h"

#define COAT_OVERDUE_MAX 8

typedef struct coat_overdue {
	struct coat_overdue *next;
	uint32_t request_id; /* of the release that was sent last, or 0 */
	size_t id_length;
	size_t prefix_length;
	size_t token_length;
	char bytes[]; /* id, prefix and token, one behind the other */
} coat_overdue;

/* A session lock: whose it is, under which id. The bytes are the caller's. */
typedef struct {
	const char *id;
	size_t id_length;
	const char *prefix;
	size_t prefix_length;
	const char *token;
	size_t token_length;
} coat_grant;

/* Adds a grant to the list. Plain C: works while the engine is down. */
void coat_overdue_keep(coat_overdue **list, const coat_grant *grant);

/* The grant of an entry; it points into the entry. */
coat_grant coat_overdue_grant(const coat_overdue *overdue);

/* Where the list points to the entry whose release has this request id, or NULL. */
coat_overdue **coat_overdue_find(coat_overdue **list, uint64_t request_id);

/* Removes the entry that the list points to here. */
void coat_overdue_remove(coat_overdue **at);

void coat_overdue_forget(coat_overdue **list);

#endif
