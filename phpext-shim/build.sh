#!/bin/sh
# Builds modules/coatcheck.so for the PHP of $PHP_CONFIG (default: php-config). Further arguments go
# to configure, e.g. --enable-coatcheck-werror.
#
# The build happens in a copy, build-tree/ (or $BUILD_TREE), so the source folder stays clean and can
# be built for another PHP at any time; the result goes to modules/ (or $MODULES_DIR). phpize writes absolute paths, so the copy is made anew when it has moved
# or the PHP, the arguments or config.m4 have changed; otherwise only what changed is compiled.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
tree=${BUILD_TREE:-$here/build-tree}
modules=${MODULES_DIR:-$here/modules}
php_config=${PHP_CONFIG:-php-config}
phpize=${PHPIZE:-phpize}

for tool in "$php_config" "$phpize" make cc pkg-config; do
	command -v "$tool" >/dev/null || {
		echo "build.sh: $tool is missing; on Debian: apt-get install php-dev libmsgpack-dev pkg-config build-essential" >&2
		exit 1
	}
done

# Two builds at once take turns.
mkdir -p "$modules"
exec 9>"$modules/.build.lock"
flock 9

stamp="$tree $("$php_config" --version) $("$php_config" --extension-dir) $* $(cksum <"$here/config.m4")"
if [ "$(cat "$tree/.stamp" 2>/dev/null)" != "$stamp" ]; then
	rm -rf "$tree"
	mkdir -p "$tree"
fi
cp -pu "$here"/config.m4 "$here"/*.c "$here"/*.h "$tree"/
cd "$tree"

if [ ! -f .stamp ]; then
	if ! "$phpize" >build.log 2>&1 || ! ./configure --with-php-config="$(command -v "$php_config")" "$@" >>build.log 2>&1; then
		tail -n 30 build.log >&2
		exit 1
	fi
	echo "$stamp" >.stamp
fi
make -s coatcheck.la >build.log 2>&1 || {
	cat build.log >&2
	exit 1
}
# the warnings of a successful build are worth seeing as well
grep -B2 -A6 'warning:' build.log >&2 || true

# By rename: a running php-fpm has the old file mapped, and writing into it would crash its workers.
cp .libs/coatcheck.so "$modules/.coatcheck.so.new"
mv -f "$modules/.coatcheck.so.new" "$modules/coatcheck.so"
echo "built $modules/coatcheck.so for PHP $("$php_config" --version)"
