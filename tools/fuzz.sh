#!/usr/bin/env bash
# Runs every fuzz target for a short while, one after the other, and feeds damaged replies to the PHP extension if it is built.
#
#   FUZZTIME=5s tools/fuzz.sh [DIRECTORY...]
#
# A finding is kept by Go under the package's testdata/fuzz: commit it with the repair. The extension's depends on the seed:
# COATCHECK_FUZZ_SEED repeats it.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly fuzztime=${FUZZTIME:-5s}
directories=("$@")
((${#directories[@]} > 0)) || directories=(sidecar tests)

targets=0
while IFS=: read -r file name; do
    targets=$((targets + 1))
    printf '%s in %s, for %s\n' "$name" "$(dirname "$file")" "$fuzztime"
    go test -run '^$' -fuzz "^${name}\$" -fuzztime "$fuzztime" -fuzzminimizetime 10x "./$(dirname "$file")"
done < <(grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' "${directories[@]}" | sed 's/:func /:/' | sort)

((targets > 0)) || {
    printf 'fuzz.sh: no fuzz target in: %s\n' "${directories[*]}" >&2
    exit 1
}
if [[ -f phpext-shim/modules/coatcheck.so && $# -eq 0 ]]; then
    export COATCHECK_FUZZ_ROUNDS=20000 COATCHECK_FUZZ_SEED=${COATCHECK_FUZZ_SEED:-$RANDOM}
    printf 'the extension, %d damaged replies, COATCHECK_FUZZ_SEED=%d\n' "$COATCHECK_FUZZ_ROUNDS" "$COATCHECK_FUZZ_SEED"
    phpext-shim/test.sh random_replies_do_no_harm.phpt
    targets=$((targets + 1))
fi

printf 'fuzz.sh: %d targets, no finding\n' "$targets"
