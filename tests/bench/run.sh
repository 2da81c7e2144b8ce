#!/usr/bin/env bash
# Measures coatcheck beside phpredis, php-memcached and PHP's own files handler, prints the ratios, and
# keeps the figures in tests/bench/out/sessions.json. `make bench` calls it when all is installed and built.
#
#   BENCH_SECONDS=2     how long each measurement takes
#   BENCH_ROUNDS=7      how often each is taken; with the defaults a run takes eight minutes
#
# Further arguments go to the program: run.sh -h lists them.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly out=tests/bench/out
mkdir -p "$out"
go build -o "$out/bench" ./tests/bench
exec "$out/bench" -each "${BENCH_SECONDS:-2}s" -rounds "${BENCH_ROUNDS:-7}" "$@"
