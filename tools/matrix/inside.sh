#!/usr/bin/env bash
# What tools/matrix/run.sh runs in a root: builds the extension for the root's PHP and runs the suites.
#
#   tools/matrix/inside.sh RESULTS SUITE...      a suite is a package under composer/, or phpt
#
# RESULTS is a file that gets a line for each suite and mode, with columns parted by tabs: suite, mode, result, tests
# that ran, tests skipped, seconds. Fails when a suite failed.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
trap 'exit 130' INT TERM # it is the first process of its namespace, which no signal ends unless it says so

results=$1
shift
failed=0

# row SUITE MODE RESULT TESTS SKIPPED SECONDS
row() {
    local IFS=$'\t'
    printf '%s\n' "$*" >>"$results"
}

# count WHAT LOG prints the figure of a line like "Tests passed : 12 ( 99.0%)" of run-tests.php.
count() {
    local figure
    figure=$(awk -F '[:(]' -v what="Tests $1" 'index($0, what) == 1 { print $2 + 0; exit }' "$2")
    printf '%s' "${figure:-0}"
}

run_phpt() {
    local from=$SECONDS log result=passed
    log=$(mktemp)
    printf -- '--- phpt\n'
    JOBS=$(nproc) phpext-shim/test.sh 2>&1 | tee "$log" || result=FAILED
    local passed
    passed=$(count passed "$log")
    ((passed > 0)) || result=FAILED
    row phpt extension "$result" "$passed" "$(count skipped "$log")" $((SECONDS - from))
    [[ $result == passed ]] || failed=1
}

from=$SECONDS
phpext-shim/build.sh --enable-coatcheck-werror || {
    row build extension FAILED 0 0 $((SECONDS - from))
    exit 1
}

packages=() phpt=''
for suite in "$@"; do
    if [[ $suite == phpt ]]; then
        phpt=yes
    elif [[ -d composer/$suite ]]; then
        packages+=("$suite")
    fi
done
((${#packages[@]} == 0)) || COATCHECK_TEST_RESULTS=$results tests/packages/run.sh "${packages[@]}" || failed=1
[[ -z $phpt ]] || run_phpt
exit "$failed"
