#!/bin/sh
# Runs the .phpt tests of the extension: test.sh [--valgrind] [file.phpt ...]
# They need modules/coatcheck.so (build.sh) and bin/coatcheck (make build).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
valgrind=
if [ "${1:-}" = --valgrind ]; then
	valgrind=yes
	shift
fi

php=${PHP:-php}
COATCHECK_DAEMON=${COATCHECK_DAEMON:-$here/../bin/coatcheck}
COATCHECK_EXTENSION=${MODULES_DIR:-$here/modules}/coatcheck.so
COATCHECK_SOURCE=$(dirname "$here")
export COATCHECK_DAEMON COATCHECK_SOURCE
run_tests=${BUILD_TREE:-$here/build-tree}/run-tests.php

for needed in "$COATCHECK_EXTENSION:build.sh" "$COATCHECK_DAEMON:make build" "$run_tests:build.sh"; do
	[ -f "${needed%:*}" ] || {
		echo "test.sh: ${needed%:*} is missing: run ${needed##*:}" >&2
		exit 1
	}
done

# run-tests has valgrind follow child processes. PHP's are worth it, the daemon and the shell are not.
export VALGRIND_OPTS='--trace-children-skip=*/coatcheck,*/sh,*/rm'

# In a copy, because run-tests writes beside the tests.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here"/tests/* "$work"/
if [ $# -gt 0 ]; then
	for test in "$@"; do
		set -- "$@" "$work/$(basename "$test")"
		shift
	done
else
	set -- "$work"
fi

# No php.ini: the machine's own extensions and settings stay out of the way. Debian has posix as a
# shared extension, others have it built in.
extensions=$COATCHECK_EXTENSION
"$php" -n -m | grep -qx posix || extensions="posix $extensions"
export COATCHECK_TEST_EXTENSIONS="$extensions"
for extension in $extensions; do
	set -- -d "extension=$extension" "$@"
done
# What PCRE compiles at run time reads beyond its subject on purpose, which valgrind cannot know.
[ -z "$valgrind" ] || set -- -m -d pcre.jit=0 "$@"
TEST_PHP_EXECUTABLE=$(command -v "$php") NO_INTERACTION=1 TEST_TIMEOUT=${TEST_TIMEOUT:-120} \
	"$php" -n "$run_tests" -n -q -j"${JOBS:-4}" -g FAIL,BORK,LEAK,SKIP --show-diff "$@"
