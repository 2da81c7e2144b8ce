#!/usr/bin/env bash
# Measures what a session of 1 KiB costs in resident memory, beside Redis. Needs some 4 GB of memory.
#
#   MEMORY_SESSIONS=1000000     how many sessions are stored
exec "$(dirname "$0")/run.sh" -suite memory -sessions "${MEMORY_SESSIONS:-1000000}" "$@"
