#!/usr/bin/env bash
# Measures the extension's functions on values beside phpredis, php-memcached and APCu, and the Redis-protocol
# endpoint beside Redis; options as run.sh.
exec "$(dirname "$0")/run.sh" -suite kv "$@"
