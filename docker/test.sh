#!/usr/bin/env bash
# Builds the images, runs compose for one host and for a cluster of three, and checks that 20 of 20 parallel requests are kept,
# in the cluster by whichever hosts, and when one of them was killed.
#
# With a Docker engine at hand it uses that and the public base images (or GO_IMAGE, PHP_IMAGE).
# With COATCHECK_DOCKER_TEST=1, as root on Debian, and no engine, it starts an engine of its own
# on bases made by debootstrap, for which neither a registry nor a firewall is needed, and stops
# it at the end. Otherwise it says why it was skipped and exits with 77.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck disable=SC2317 # what the trap calls is reached by it

readonly project=coatcheck-test
readonly cache=$PWD/run/docker
readonly go_default=golang:1.26-bookworm php_default=php:8.2-fpm-bookworm

work='' engine_pid='' namespace_pid='' started='' compose_file=''
inside=() # how to run a command where the published port can be reached

say() { printf 'docker test: %s\n' "$1"; }

die() {
    say "$1" >&2
    exit 1
}

skip() {
    say "skipped: $1"
    exit 77
}

# compose is given the project's name, so that nothing of another project is touched.
compose() {
    if docker compose version >/dev/null 2>&1; then
        docker compose -p "$project" -f "$compose_file" "$@"
    else
        docker-compose -p "$project" -f "$compose_file" "$@"
    fi
}

# up FILE starts what a compose file describes, down ends it.
up() {
    compose_file=$1
    say "starting $compose_file"
    started=1
    compose up --no-build -d
    compose ps
}

down() {
    [[ -n $started ]] || return 0
    compose down --volumes --timeout 5 >/dev/null 2>&1 || true
    started=''
}

stop() {
    [[ -n $1 ]] || return 0
    kill "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

# stop_engine also takes down what dockerd leaves mounted when it ends.
stop_engine() {
    [[ -n $engine_pid ]] || return 0
    stop "$engine_pid"
    engine_pid=''
    umount "$work"/exec/netns/* 2>/dev/null || true
}

clean_up() {
    trap '' INT TERM
    down
    stop_engine
    stop "$namespace_pid"
    [[ -z $work ]] || rm -rf "$work"
}

# start_engine COMMAND... -- FLAG... runs dockerd, itself started through COMMAND, until it answers.
start_engine() {
    local -a through=()
    while [[ $1 != -- ]]; do
        through+=("$1")
        shift
    done
    shift
    rm -f "$work/docker.pid"
    "${through[@]}" dockerd --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/docker.pid" \
        --host "$DOCKER_HOST" --log-level error "$@" >>"$work/dockerd.log" 2>&1 &
    engine_pid=$!
    local end=$((SECONDS + 60))
    until docker info >/dev/null 2>&1; do
        if ! kill -0 "$engine_pid" 2>/dev/null || ((SECONDS >= end)); then
            die "dockerd does not start: $(tail -n 5 "$work/dockerd.log")"
        fi
        sleep 0.2
    done
}

# make_base leaves a plain Debian 12 in the cache, from the mirror this machine uses itself.
make_base() {
    [[ -f $cache/debian.tar ]] && return
    local mirror
    # shellcheck disable=SC2016 # apt reads $(REPO_URI), not the shell
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' 'Label: Debian' 'Created-By: Packages' | head -n 1)
    say 'debootstrap makes the base (about two minutes)'
    debootstrap --variant=minbase bookworm "$work/debian" "$mirror" >"$work/debootstrap.log" ||
        die "debootstrap: $(tail -n 3 "$work/debootstrap.log")"
    mkdir -p "$cache"
    tar -C "$work/debian" -c . >"$cache/debian.tar.part"
    mv "$cache/debian.tar.part" "$cache/debian.tar"
    rm -rf "$work/debian"
}

# make_go_image puts this machine's Go and its root certificates on the base.
make_go_image() {
    mkdir "$work/go"
    tar -C "$(go env GOROOT)" --exclude=./test --exclude=./doc -c . >"$work/go/go.tar"
    cp -L /etc/ssl/certs/ca-certificates.crt "$work/go/"
    docker build -q -t coatcheck-go -f - "$work/go" <<'DOCKERFILE'
FROM coatcheck-base
ADD go.tar /usr/local/go
COPY ca-certificates.crt /etc/ssl/certs/
ENV PATH=/usr/local/go/bin:$PATH GOTOOLCHAIN=local
DOCKERFILE
    rm -rf "$work/go"
}

build() {
    say 'building the daemon image'
    docker build "$@" --build-arg "GO_IMAGE=$GO_IMAGE" --build-arg "GOPROXY=$(go env GOPROXY)" \
        -f docker/Dockerfile -t coatcheck .
    say 'building the php-fpm image'
    docker build "$@" --build-arg "PHP_IMAGE=$PHP_IMAGE" -f docker/php-fpm.Dockerfile -t coatcheck-php-fpm .
    say "building the image of the cluster's front"
    docker build "$@" --build-arg "PHP_IMAGE=$PHP_IMAGE" -f docker/front.Dockerfile -t coatcheck-front .
}

# use_own_engine builds in this machine's network, then goes on in a network of its own, because
# an engine that makes bridges and firewall rules would otherwise change this machine's.
use_own_engine() {
    tools/install.sh build docker
    work=$(mktemp -d "${TMPDIR:-/tmp}/coatcheck-docker.XXXXXX")
    export DOCKER_HOST=unix://$work/docker.sock
    make_base
    start_engine -- --iptables=false --bridge=none
    docker import "$cache/debian.tar" coatcheck-base
    make_go_image
    export GO_IMAGE=coatcheck-go PHP_IMAGE=coatcheck-base
    build --network=host
    stop_engine

    unshare --net sleep infinity &
    namespace_pid=$!
    inside=(nsenter "--net=/proc/$namespace_pid/ns/net")
    until [[ $(readlink "/proc/$namespace_pid/ns/net") != $(readlink /proc/self/ns/net) ]]; do sleep 0.05; done
    "${inside[@]}" ip link set lo up
    start_engine "${inside[@]}" --
}

use_engine_at_hand() {
    export GO_IMAGE=${GO_IMAGE:-$go_default} PHP_IMAGE=${PHP_IMAGE:-$php_default}
    local image
    for image in "$GO_IMAGE" "$PHP_IMAGE"; do
        docker image inspect "$image" >/dev/null 2>&1 || docker pull -q "$image" ||
            skip "there is a Docker engine, but it cannot get $image. GO_IMAGE and PHP_IMAGE name other bases"
    done
    build
}

# check_demo has the demo asked for 20 of 20.
check_demo() {
    "${inside[@]}" php docker/check.php http://127.0.0.1:8131 || {
        compose logs --tail 30
        die "the demo of $compose_file does not answer as it should"
    }
}

check_one_host() {
    up docker/compose.yaml
    check_demo
    [[ $(docker inspect -f '{{.State.Health.Status}}' "$(compose ps -q coatcheck)") == healthy ]] ||
        die 'the daemon is up, but its health check does not say healthy'
    down
}

# serving HOST... says how many of the 256 shards the hosts serve together.
serving() {
    local host sum=0 one
    for host; do
        one=$(compose exec -T "$host" coatcheck members --json 2>/dev/null | grep -o '"serving":[0-9]*') || one=:0
        sum=$((sum + ${one#*:}))
    done
    printf '%s\n' "$sum"
}

# await_all HOST... waits until the hosts serve all shards.
await_all() {
    local end=$((SECONDS + 60))
    until (($(serving "$@") == 256)); do
        if ((SECONDS >= end)); then
            compose exec -T "$1" coatcheck members || true
            compose logs --tail 30
            die "$* do not serve all shards"
        fi
        sleep 0.5
    done
}

check_cluster() {
    up docker/compose.cluster.yaml
    await_all coatcheck-1 coatcheck-2 coatcheck-3
    check_demo
    local pools
    pools=$(compose logs front | grep -o 'served by [0-9.]*:9000' | sort -u | wc -l)
    ((pools == 3)) || die "the front took turns with $pools pools, not three"
    say 'killing one of the three hosts'
    compose kill coatcheck-3 php-fpm-3
    await_all coatcheck-1 coatcheck-2
    check_demo
    down
}

trap clean_up EXIT
trap 'exit 130' INT TERM
if command -v docker >/dev/null && docker info >/dev/null 2>&1; then
    use_engine_at_hand
elif [[ ${COATCHECK_DOCKER_TEST:-} != 1 ]]; then
    skip 'there is no Docker engine. "make docker-test", as root on Debian 12, starts one of its own'
elif ((EUID != 0)); then
    die 'starting a Docker engine needs root'
else
    use_own_engine
fi
check_one_host
check_cluster
say 'passed'
