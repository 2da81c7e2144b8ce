#!/usr/bin/env bash
# Runs the PHPUnit suites of the Composer packages, each against a live daemon of its own, without the extension and
# with it.
#
#   tests/packages/run.sh [PACKAGE...] [-- PHPUNIT-OPTION...]
#
# A suite finds in its environment
#   COATCHECK_TEST_SOCKET     the socket of its daemon (with the extension: also its coatcheck.socket)
#   COATCHECK_TEST_DAEMON     the daemon's program, for tests that kill or restart one of their own
#   COATCHECK_TEST_EXTENSION  the extension's file, for tests that start a PHP of their own
#   COATCHECK_TEST_MODE       `stream` or `extension`: whether this PHP has loaded the extension
#   COATCHECK_TEST_DIR        a directory for its files, removed afterwards
#
# A package without a suite, and a suite that runs no test, is a failure. The file $COATCHECK_TEST_RESULTS, if named,
# gets a line for each suite, its columns parted by tabs: package, mode, result, tests run, tests skipped, seconds.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly PACKAGES=(client session-handler laravel symfony wordpress)
readonly MODES=(stream extension)

root=$PWD
daemon=$root/bin/coatcheck
extension=$root/phpext-shim/modules/coatcheck.so

die() {
    printf 'tests/packages: %s\n' "$1" >&2
    exit 1
}

[[ -x $daemon ]] || die "$daemon is not built: run make build"
[[ -f $extension ]] || die "$extension is not built: run make ext"
phpunit=$(command -v phpunit) || die 'phpunit is not installed: run tools/install.sh test'

work=$(mktemp -d "${TMPDIR:-/tmp}/coatcheck-packages.XXXXXX")
daemon_pid=
stop_daemon() {
    [[ -n $daemon_pid ]] || return 0
    kill "$daemon_pid" 2>/dev/null || true
    wait "$daemon_pid" 2>/dev/null || true
    daemon_pid=
}
trap 'stop_daemon; rm -rf "$work"' EXIT

# Copies, so that a build beside the tests changes nothing under them.
cp "$daemon" "$work/coatcheck"
cp "$extension" "$work/coatcheck.so"

# start_daemon DIRECTORY starts a daemon that keeps nothing and waits until it answers.
start_daemon() {
    env -u NOTIFY_SOCKET "$work/coatcheck" serve --socket "$1/coatcheck.sock" --data '' --log-level warn >"$1/daemon.log" 2>&1 &
    daemon_pid=$!
    local i
    for ((i = 0; i < 200; i++)); do
        "$work/coatcheck" ping --socket "$1/coatcheck.sock" >/dev/null 2>&1 && return
        sleep 0.05
    done
    cat "$1/daemon.log" >&2
    die 'the daemon did not start'
}

# count TAG LOG prints how many of these PHPUnit's JUnit log has; none when there is no log.
count() { cat "$2" 2>/dev/null | grep -c "<$1[ />]" || true; }

# report PACKAGE MODE RESULT RAN SKIPPED SECONDS
report() {
    local IFS=$'\t'
    [[ -z ${COATCHECK_TEST_RESULTS:-} ]] || printf '%s\n' "$*" >>"$COATCHECK_TEST_RESULTS"
}

# run_suite PACKAGE MODE [PHPUNIT-OPTION...]
run_suite() {
    local package=$1 mode=$2 status=0 from=$SECONDS directory
    shift 2
    directory=$work/$package-$mode
    mkdir -p "$directory"
    printf -- '--- %s (%s)\n' "$package" "$mode"
    start_daemon "$directory"
    local -a php=(php -d zend.assertions=1 -d memory_limit=512M)
    local -a options=()
    if [[ $mode == extension ]]; then
        php+=(-d "extension=$work/coatcheck.so" -d "coatcheck.socket=$directory/coatcheck.sock")
    else
        options=(--exclude-group extension) # these need it
    fi
    COATCHECK_TEST_SOCKET=$directory/coatcheck.sock COATCHECK_TEST_DAEMON=$work/coatcheck \
        COATCHECK_TEST_EXTENSION=$work/coatcheck.so COATCHECK_TEST_MODE=$mode COATCHECK_TEST_DIR=$directory \
        "${php[@]}" "$phpunit" --configuration "composer/$package/phpunit.xml.dist" \
        --log-junit "$directory/junit.xml" "${options[@]}" "$@" || status=$?
    stop_daemon
    local skipped ran result=passed
    skipped=$(count skipped "$directory/junit.xml")
    ran=$(($(count testcase "$directory/junit.xml") - skipped))
    if ((status != 0)); then
        failed+=("$package ($mode)")
        result=FAILED
    elif ((ran == 0)); then
        printf 'tests/packages: the suite of %s ran no test\n' "$package" >&2
        failed+=("$package ($mode): no test")
        result=FAILED
    fi
    report "$package" "$mode" "$result" "$ran" "$skipped" $((SECONDS - from))
    total=$((total + ran))
}

wanted=()
while (($# > 0)) && [[ $1 != -- ]]; do
    [[ -d composer/$1 ]] || die "there is no package $1 (there are: ${PACKAGES[*]})"
    wanted+=("$1")
    shift
done
(($# == 0)) || shift
((${#wanted[@]} > 0)) || wanted=("${PACKAGES[@]}")

failed=() total=0
for package in "${wanted[@]}"; do
    if [[ ! -d composer/$package ]]; then
        printf -- '--- %s: there is no such package yet\n' "$package"
        continue
    fi
    if [[ ! -f composer/$package/phpunit.xml.dist ]]; then
        printf 'tests/packages: composer/%s has no phpunit.xml.dist\n' "$package" >&2
        failed+=("$package: no suite")
        continue
    fi
    for mode in "${MODES[@]}"; do run_suite "$package" "$mode" "$@"; done
done

((${#failed[@]} == 0)) || die "failed: $(printf '%s; ' "${failed[@]}")"
printf 'tests/packages: %d tests ran\n' "$total"
