#!/usr/bin/env bash
# Runs every suite in turn and stops at the first that fails, with its name. `make test` calls
# it when what it needs is installed and built. Suites can be named to run only those:
#
#   tools/test.sh [SUITE...]        tools/test.sh --list
set -euo pipefail
cd "$(dirname "$0")/.."

readonly SUITES=(static units fuzz extension memory end-to-end packages docker)

title() {
    case $1 in
        static) echo 'static checks: gofmt, go vet, shellcheck, clang-format, cppcheck, phpcs' ;;
        units) echo 'the Go packages, with the race detector' ;;
        fuzz) echo 'short fuzz runs of everything that reads foreign bytes' ;;
        extension) echo 'the PHP extension: .phpt' ;;
        memory) echo 'the PHP extension under valgrind' ;;
        end-to-end) echo 'end to end: daemon, extension and php-fpm' ;;
        packages) echo 'the Composer packages: PHPUnit against a live daemon, with the extension and without' ;;
        docker) echo 'the Docker images and compose' ;;
    esac
}

# A suite ends with this status to say that it could not be run here; it has printed why.
readonly SKIPPED=77

run_static() { tools/static.sh; }
run_units() { CGO_ENABLED=1 go test -race -timeout 8m ./sidecar/...; }
run_fuzz() { tools/fuzz.sh; }
run_extension() { JOBS=$(nproc) phpext-shim/test.sh; }
run_memory() { JOBS=$(nproc) phpext-shim/test.sh --valgrind; }
run_end-to-end() { go test -count=1 -timeout 10m ./tests/...; }
run_packages() { tests/packages/run.sh; }
run_docker() { docker/test.sh; }

passed=0 skipped=0
summary=()

# run_suite NAME runs it in a shell of its own, so that `set -e` holds inside it.
run_suite() {
    local name=$1 from=$SECONDS status=0
    printf '\n=== %s: %s\n' "$name" "$(title "$name")"
    set +e
    (
        set -e
        "run_$name"
    ) </dev/null
    status=$?
    set -e
    local took=$((SECONDS - from))
    case $status in
        0)
            passed=$((passed + 1))
            printf '=== %s: passed in %d s\n' "$name" "$took"
            summary+=("$(printf '%-12s passed   %4d s' "$name" "$took")")
            ;;
        "$SKIPPED")
            skipped=$((skipped + 1))
            printf '=== %s: skipped\n' "$name"
            summary+=("$(printf '%-12s skipped' "$name")")
            ;;
        *)
            printf '=== %s: FAILED after %d s. Run it alone with: tools/test.sh %s\n' "$name" "$took" "$name"
            printf 'suites: %d passed, 1 failed, %d skipped\n' "$passed" "$skipped"
            exit 1
            ;;
    esac
}

if [[ ${1:-} == --list ]]; then
    for suite in "${SUITES[@]}"; do printf '%-12s %s\n' "$suite" "$(title "$suite")"; done
    exit
fi

wanted=("$@")
((${#wanted[@]} > 0)) || wanted=("${SUITES[@]}")
for suite in "${wanted[@]}"; do
    [[ -n $(title "$suite") ]] || {
        printf 'test.sh: no such suite: %s (there are: %s)\n' "$suite" "${SUITES[*]}" >&2
        exit 2
    }
done
for suite in "${wanted[@]}"; do run_suite "$suite"; done

printf '\n'
printf '%s\n' "${summary[@]}"
printf 'suites: %d passed, 0 failed, %d skipped\n' "$passed" "$skipped"
