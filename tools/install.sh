#!/usr/bin/env bash
# Installs what is missing for building, running, testing or measuring coatcheck.
#
#   tools/install.sh GROUP...      groups: build run test bench docker matrix
#
# On Debian 12 it uses apt, as root or through sudo, and takes no time when nothing is missing.
# Elsewhere it installs nothing: it looks for each program and says exactly what is not there.
# Go is never installed by it: see the message of need_go.
set -euo pipefail

# Each line: group, Debian 12 package, how its presence shows on another system, what it is.
# A probe with a slash is a file or a header; any other is a command; `-` cannot be probed.
readonly TABLE='
build  ca-certificates    -                       root certificates, to download Go modules
build  gcc                cc                      a C compiler
build  libc6-dev          /usr/include/stdio.h    the C library headers
build  make               make                    make
build  autoconf           autoconf                autoconf (phpize runs it)
build  pkg-config         pkg-config              pkg-config
build  php8.2-cli         php                     PHP 8.1 to 8.5, command line
build  php8.2-dev         phpize                  the PHP development files (phpize, php-config)
build  libmsgpack-dev     /usr/include/msgpack.h  msgpack-c with its headers
run    php8.2-fpm         php-fpm                 php-fpm of the same PHP
test   php8.2-fpm         php-fpm                 php-fpm of the same PHP
test   valgrind           valgrind                valgrind
test   libc6-dbg          -                       debug symbols of the C library, for valgrind
test   shellcheck         shellcheck              shellcheck
test   clang-format       clang-format            clang-format 14
test   cppcheck           cppcheck                cppcheck
test   php-codesniffer    phpcs                   PHP_CodeSniffer
test   redis-server       redis-server            Redis 7, to compare answers with
test   redis-tools        redis-cli               the Redis command line
test   php-redis          -                       the PHP extension redis
test   php-illuminate-cache      -                the cache of Laravel, for its Redis store and lock
test   php-illuminate-redis      -                the Redis connections of Laravel
test   php-illuminate-container  -                the container of Laravel, which they need
test   php-laravel-framework    -                all of Laravel 8, for its package and an application
test   php8.2-cgi         php-cgi                 php-cgi of the same PHP
test   phpunit            phpunit                 PHPUnit 9.6
test   composer           composer                Composer, to validate composer.json
test   php-msgpack        -                       the PHP extension msgpack
test   php-psr-simple-cache       -               the interfaces of PSR-16
test   php-cache-integration-tests  -             the tests of PSR-6 and PSR-16
test   php-symfony-framework-bundle  -            Symfony with its cache, its sessions and its container
test   php-symfony-lock       -                  the locks of Symfony
test   php-symfony-console    -                  the console of Symfony
test   wordpress          -                       WordPress 6.1, for its object cache
test   php8.2             -                       what WordPress wants of PHP, or it takes an Apache module
test   mini-httpd         -                       what WordPress wants of a web server, or it takes Apache; it is not started
test   wordpress-theme-twentytwentythree  -       its theme
test   mariadb-server-core  mariadbd              the database server of WordPress, without a service
test   php-mysql          -                       the PHP extension mysqli
test   iproute2           ip                      iproute2, for hosts in network namespaces
test   iptables           iptables                iptables, to cut them off from each other
test   util-linux         nsenter                 util-linux
bench  php8.2-fpm         php-fpm                 php-fpm of the same PHP
bench  php-redis          -                       the PHP extension redis
bench  php-memcached      -                       the PHP extension memcached
bench  php-apcu           -                       the PHP extension apcu
bench  redis-server       redis-server            Redis 7
bench  redis-tools        redis-benchmark         redis-benchmark
bench  memcached          memcached               memcached
docker docker.io          docker                  a Docker engine
docker docker-compose     docker-compose          docker-compose
docker debootstrap        debootstrap             debootstrap
docker iproute2           ip                      iproute2
docker util-linux         nsenter                 util-linux
matrix debootstrap        debootstrap             debootstrap
matrix iproute2           ip                      iproute2
matrix util-linux         unshare                 util-linux
'

die() {
    printf 'install.sh: %s\n' "$1" >&2
    exit 1
}

# rows GROUP... prints the table's lines of these groups.
rows() {
    local group
    for group in "$@"; do
        awk -v group="$group" '$1 == group { found = 1; print } END { exit !found }' <<<"$TABLE" ||
            die "no such group: $group (there are: build run test bench docker matrix)"
    done
}

need_go() {
    local version
    command -v go >/dev/null || die "Go 1.26 or later is needed and there is no 'go' on the PATH. Get it from https://go.dev/dl/, unpack it in /usr/local and add /usr/local/go/bin to the PATH."
    version=$(GOTOOLCHAIN=local go env GOVERSION)
    [[ $(printf '%s\n' go1.26 "$version" | sort -V | head -n 1) == go1.26 ]] ||
        die "Go 1.26 or later is needed, 'go' on the PATH is $version. Get it from https://go.dev/dl/."
}

is_debian_12() {
    [[ -r /etc/os-release ]] || return 1
    # shellcheck source=/dev/null
    (. /etc/os-release && [[ ${ID:-} == debian && ${VERSION_ID:-} == 12 ]])
}

# missing_packages PACKAGE... prints those that are not installed.
missing_packages() {
    local package
    for package in "$@"; do
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || printf '%s\n' "$package"
    done
}

apt_install() {
    local -a root=()
    if ((EUID != 0)); then
        command -v sudo >/dev/null || die "these packages are missing and neither root nor sudo is at hand. Run as root: apt-get install $*"
        root=(sudo)
    fi
    local log
    log=$(mktemp)
    local -a install=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@")
    printf 'install.sh: installing %s\n' "$*"
    # The package lists may be absent or old; they are fetched only if the first try fails.
    if ! "${install[@]}" </dev/null >"$log" 2>&1; then
        "${root[@]}" apt-get update -qq </dev/null || die 'apt-get could not fetch the package lists'
        "${install[@]}" </dev/null >"$log" 2>&1 || {
            tail -n 20 "$log" >&2
            rm -f "$log"
            die "apt-get could not install: $*"
        }
    fi
    rm -f "$log"
}

# is_present PROBE tells whether a program or header is there.
is_present() {
    case $1 in
        -) return 0 ;;
        /usr/include/*) printf '#include <%s>\n' "${1#/usr/include/}" | cc -E - >/dev/null 2>&1 ;;
        php-fpm) compgen -c php-fpm >/dev/null || compgen -G '/usr/sbin/php-fpm*' >/dev/null ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

check_elsewhere() {
    local probe what complete=1
    while read -r _ _ probe what; do
        is_present "$probe" && continue
        ((complete)) && printf 'install.sh: this is not Debian 12, so nothing is installed for you. Please install:\n' >&2
        complete=0
        printf '  * %s (looked for: %s)\n' "$what" "$probe" >&2
    done
    ((complete)) || die "then run the same command again"
}

main() {
    (($# > 0)) || die "usage: tools/install.sh GROUP... (groups: build run test bench docker matrix)"
    need_go
    local wanted
    wanted=$(rows "$@")
    if ! is_debian_12; then
        check_elsewhere <<<"$wanted"
        return
    fi
    local -a packages missing
    mapfile -t packages < <(awk '{ print $2 }' <<<"$wanted" | sort -u)
    mapfile -t missing < <(missing_packages "${packages[@]}")
    ((${#missing[@]} == 0)) || apt_install "${missing[@]}"
}

main "$@"
