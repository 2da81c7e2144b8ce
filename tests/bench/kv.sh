#!/usr/bin/env bash
# Measures the extension's functions on values beside phpredis, php-memcached and APCu; options as run.sh.
exec "$(dirname "$0")/run.sh" -suite kv "$@"
