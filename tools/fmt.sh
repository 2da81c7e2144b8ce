#!/usr/bin/env bash
# Formats what can be formatted: Go by gofumpt, C by clang-format, shell by shfmt, PHP by phpcbf.
set -euo pipefail
cd "$(dirname "$0")/.."

# each PATTERN... -- COMMAND... gives all matching files of the project to one command.
each() {
    local -a patterns=() sources=()
    while [[ $1 != -- ]]; do
        patterns+=("$1")
        shift
    done
    shift
    command -v "$1" >/dev/null || {
        printf 'fmt.sh: %s is not installed: passed over\n' "$1"
        return
    }
    mapfile -t sources < <(git ls-files --cached --others --exclude-standard -- "${patterns[@]}")
    ((${#sources[@]} == 0)) || "$@" "${sources[@]}"
}

each '*.go' -- go tool -modfile=tools/go.mod gofumpt -w
each 'phpext-shim/*.c' 'phpext-shim/*.h' -- clang-format -i
each '*.sh' .ci/run -- shfmt -w
# phpcbf exits 1 when it has changed something.
each 'tools/demo/*.php' 'tests/*.php' 'composer/*.php' -- phpcbf -q --standard=tools/phpcs.xml || (($? == 1))
