#!/usr/bin/env bash
# Serves the demo: the daemon and php-fpm in the foreground, in a run directory of their own that
# is removed at the end. Ctrl-C stops both. `make run` calls it when all is built.
#
#   DEMO_HTTP=127.0.0.1:8131     where the page is served
#   DEMO_ADMIN=127.0.0.1:8132    where health, metrics and status are
# shellcheck disable=SC2317 # clean_up and what it calls are reached by the traps
set -euo pipefail
cd "$(dirname "$0")/.."

readonly http=${DEMO_HTTP:-127.0.0.1:8131}
readonly admin=${DEMO_ADMIN:-127.0.0.1:8132}
readonly daemon=$PWD/bin/coatcheck
readonly extension=$PWD/phpext-shim/modules/coatcheck.so
readonly pool_user=www-data # of the workers, when root starts the demo

run='' daemon_pid='' fpm_pid=''

say() { printf 'demo: %s\n' "$1"; }

die() {
    printf 'demo: %s\n' "$1" >&2
    exit 1
}

# stop_child PID SIGNAL ends a child, if it was started, and waits until it is gone.
stop_child() {
    [[ -n $1 ]] || return 0
    kill -s "$2" "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

# php-fpm goes first, so that its workers can still commit their sessions.
clean_up() {
    trap '' INT TERM
    stop_child "$fpm_pid" QUIT
    stop_child "$daemon_pid" TERM
    [[ -z $run ]] || rm -rf "$run"
}

find_fpm() {
    local name
    for name in php-fpm8.2 php-fpm; do
        PATH=$PATH:/usr/sbin command -v "$name" && return
    done
    die "there is no php-fpm: tools/install.sh run installs it"
}

answers() { (exec 3<>"/dev/tcp/${1%:*}/${1##*:}") 2>/dev/null; }

need_free_port() {
    ! answers "$1" || die "$1 is taken by another program. Stop it, or choose another address with $2=127.0.0.1:PORT"
}

# wait_for WHAT PID COMMAND... tries for 10 s, and gives up as soon as the child has ended.
wait_for() {
    local what=$1 pid=$2 end=$((SECONDS + 10))
    shift 2
    until "$@" >/dev/null 2>&1; do
        kill -0 "$pid" 2>/dev/null || die "$what ended at once: its message is above"
        ((SECONDS < end)) || die "$what did not get ready within 10 s"
        sleep 0.05
    done
}

fill() {
    sed -e "s|@RUN@|$run|g" -e "s|@FRONT@|$http|g" -e "s|@EXTENSION@|$extension|g" \
        -e "s|@SOCKET@|$run/coatcheck.sock|g" -e "s|@USER@|$2|g" "tools/demo/$1.in" >"$run/$1"
}

prepare() {
    run=$(mktemp -d "${TMPDIR:-/tmp}/coatcheck-demo.XXXXXX")
    local user=''
    docroot=$PWD/tools/demo/public
    if ((EUID == 0)); then
        # The workers run as another user, who must get to the sockets and may not be able to
        # look into this checkout: they get a copy.
        user="user = $pool_user"
        export COATCHECK_SOCKET_GROUP=$pool_user
        chmod 0711 "$run"
        cp -R tools/demo "$run/demo"
        chmod -R go+rX "$run/demo"
        docroot=$run/demo/public
    fi
    fill php.ini ''
    fill php-fpm.conf "$user"
}

start_daemon() {
    COATCHECK_FPM_STATUS=unix:$run/fpm-status.sock "$daemon" serve --socket "$run/coatcheck.sock" --data '' \
        --http "$http" --fpm "unix:$run/fpm.sock" --docroot "$docroot" --admin "$admin" --log-level warn &
    daemon_pid=$!
    wait_for 'the daemon' "$daemon_pid" "$daemon" ping --socket "$run/coatcheck.sock"
}

# The empty PHP_INI_SCAN_DIR keeps this machine's other extensions out. Its messages go through
# a pipe because it opens /dev/stderr anew, which a terminal that belongs to someone else forbids.
start_fpm() {
    PHP_INI_SCAN_DIR='' "$fpm" --nodaemonize --fpm-config "$run/php-fpm.conf" -c "$run/php.ini" 2> >(exec cat >&2) &
    fpm_pid=$!
    wait_for 'php-fpm' "$fpm_pid" test -S "$run/fpm.sock"
}

[[ -x $daemon ]] || die "there is no $daemon: make build makes it"
[[ -f $extension ]] || die "there is no $extension: make ext makes it"
fpm=$(find_fpm)
need_free_port "$http" DEMO_HTTP
need_free_port "$admin" DEMO_ADMIN

trap clean_up EXIT
trap 'say "stopping"; exit 0' INT TERM
prepare
start_daemon
start_fpm

say "open http://$http (status: http://$admin/v1/status); Ctrl-C ends it"
status=0
wait -n "$daemon_pid" "$fpm_pid" || status=$?
if kill -0 "$fpm_pid" 2>/dev/null; then
    die "the daemon ended by itself with status $status"
fi
die "php-fpm ended by itself with status $status"
