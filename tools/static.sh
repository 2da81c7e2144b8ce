#!/usr/bin/env bash
# The static checks that need no long build: gofmt, go vet, shellcheck, clang-format, cppcheck
# and PHP_CodeSniffer. A tool that is not installed is named and passed over; `make test`
# installs them all on Debian 12. Runs every check, then fails if any of them failed.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=()

# files PATTERN... prints the project's own files, committed or not.
files() {
    git ls-files --cached --others --exclude-standard -- "$@" | while IFS= read -r file; do
        [[ -f $file ]] && printf '%s\n' "$file"
    done
}

# check NAME TOOL COMMAND... runs one check if its tool is there.
check() {
    local name=$1 tool=$2
    shift 2
    if ! command -v "$tool" >/dev/null; then
        printf '  %-14s not installed: passed over\n' "$name"
    elif "$@"; then
        printf '  %-14s ok\n' "$name"
    else
        printf '  %-14s FAILED\n' "$name"
        failed+=("$name")
    fi
}

check_gofmt() {
    local -a sources
    local unformatted
    mapfile -t sources < <(files '*.go')
    unformatted=$(gofmt -l "${sources[@]}") || return 1
    [[ -z $unformatted ]] && return
    printf 'not formatted, run "make fmt":\n%s\n' "$unformatted"
    return 1
}

check_shell() {
    local -a scripts
    mapfile -t scripts < <(files '*.sh' .ci/run)
    shellcheck --severity=warning --external-sources "${scripts[@]}"
}

check_c_format() {
    local -a sources
    mapfile -t sources < <(files 'phpext-shim/*.c' 'phpext-shim/*.h')
    ((${#sources[@]} == 0)) || clang-format --dry-run -Werror "${sources[@]}"
}

check_c() {
    local -a sources
    mapfile -t sources < <(files 'phpext-shim/*.c')
    ((${#sources[@]} == 0)) || cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c11 --library=tools/cppcheck.cfg \
        --enable=warning,performance,portability --suppressions-list=tools/cppcheck.txt "${sources[@]}"
}

check_php() {
    local -a sources
    mapfile -t sources < <(files 'tools/demo/*.php' 'tests/*.php' 'composer/*.php' 'docker/*.php')
    phpcs -q -n --standard=tools/phpcs.xml "${sources[@]}"
}

check gofmt gofmt check_gofmt
check 'go vet' go go vet ./...
check shellcheck shellcheck check_shell
check clang-format clang-format check_c_format
check cppcheck cppcheck check_c
check phpcs phpcs check_php

((${#failed[@]} == 0)) || {
    printf 'static.sh: failed: %s\n' "${failed[*]}" >&2
    exit 1
}
