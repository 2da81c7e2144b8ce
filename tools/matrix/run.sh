#!/usr/bin/env bash
# Repeats the suites of the Composer packages, and the .phpt suite of the extension, on newer PHPs and frameworks than
# this machine has, in roots that debootstrap makes of other releases of Debian. `make test-matrix` calls it.
#
#   tools/matrix/run.sh [--fresh] [ROOT...]      roots: trixie sid; --fresh makes them anew
#
# The roots are kept for the next run, 0.7 GB each, in $COATCHECK_MATRIX, by default
# ${XDG_CACHE_HOME:-~/.cache}/coatcheck/matrix. $COATCHECK_MATRIX_SUITES names the packages to test, and `phpt` the
# suite of the extension; all of them unless it is set.
#
# It needs root. Everything that runs in a root runs in namespaces of its own: its mounts and its processes end with it,
# and a suite sees the loopback and no other network. The suites see a copy of the checkout.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly ROOTS=(trixie sid)
readonly SUITES=(client session-handler laravel symfony wordpress phpt)

# What the suites need, under the names that Debian gives it from trixie on.
readonly PACKAGES=(
    php-cli php-cgi php-mbstring php-xml php-msgpack phpunit
    php-psr-simple-cache php-cache-integration-tests php-laravel-framework
    php-symfony-framework-bundle php-symfony-lock php-symfony-console
    composer # for Composer\InstalledVersions, which the container of Symfony asks
    php-dev libmsgpack-c-dev gcc libc6-dev make autoconf pkg-config
)

# The first lines of the table: whose versions are worth knowing.
readonly SUBJECTS=(php-laravel-framework php-symfony-cache phpunit)

cache=${COATCHECK_MATRIX:-${XDG_CACHE_HOME:-$HOME/.cache}/coatcheck/matrix}
work='' # what only this run needs

die() {
    printf 'test-matrix: %s\n' "$1" >&2
    exit 1
}

say() { printf '=== %s\n' "$*"; }

prepare_machine() {
    ((EUID == 0)) || die 'it makes and enters root file systems: run it as root'
    tools/install.sh build matrix
    make --no-print-directory build
}

# apart COMMAND... runs it in namespaces of its own for mounts and processes, which end when it ends.
apart() { unshare --mount --propagation private --pid --fork --kill-child "$@"; }

# in_root [UNSHARE-OPTION...] -- ROOT COMMAND... runs a command in a root. A directory $work/ROOT is its /coatcheck.
in_root() {
    local -a options=()
    while [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    local root=$2
    shift 2
    # shellcheck disable=SC2016 # the shell inside reads these
    apart "${options[@]}" bash -euc '
        root=$1 checkout=$2
        shift 2
        ip link set lo up
        mount -t proc proc "$root/proc"
        mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
        mount --bind "$checkout" "$root/coatcheck"
        exec chroot "$root" env -i HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            DEBIAN_FRONTEND=noninteractive "$@"
    ' bash "$cache/$root" "$work/$root" "$@" </dev/null
}

# mirror prints where this machine has its Debian packages from.
mirror() {
    # shellcheck disable=SC2016 # apt reads $(REPO_URI), not the shell
    apt-get indextargets --format '$(REPO_URI)' 'Label: Debian' 'Created-By: Packages' | head -n 1
}

# make_root ROOT makes it, unless it is there with all that the suites need.
make_root() {
    local root=$1
    mkdir -p "$work/$root"
    [[ $(cat "$cache/$root.packages" 2>/dev/null) != "${PACKAGES[*]}" ]] || return 0
    local log=$work/$root.log
    if [[ ! -d $cache/$root ]]; then
        say "$root: debootstrap (some minutes)"
        rm -rf "$cache/$root.part"
        apart debootstrap --variant=minbase "$root" "$cache/$root.part" "$(mirror)" >"$log" 2>&1 || {
            tail -n 5 "$log" >&2
            die "debootstrap could not make a root of $root"
        }
        mkdir "$cache/$root.part/coatcheck"
        # The proxies of this machine's apt, and its leave to use a mirror that has stood still.
        { apt-config dump Acquire | grep -E '^Acquire::(http|Check-)' || true; } >"$cache/$root.part/etc/apt/apt.conf.d/90acquire"
        mv "$cache/$root.part" "$cache/$root"
    fi
    say "$root: apt-get install"
    in_root -- "$root" sh -c 'apt-get update && apt-get install -y --no-install-recommends "$@" && apt-get clean' \
        sh "${PACKAGES[@]}" >"$log" 2>&1 || {
        tail -n 20 "$log" >&2
        die "apt-get could not install in the root of $root"
    }
    printf '%s\n' "${PACKAGES[*]}" >"$cache/$root.packages"
}

# versions ROOT prints its name and the versions of PHP and of what the packages are for.
versions() {
    # shellcheck disable=SC2016 # dpkg-query reads ${Version}, not the shell
    in_root -- "$1" sh -c 'php -r "echo PHP_VERSION, PHP_EOL;"; dpkg-query -W -f "\${Version}\n" "$@"' sh "${SUBJECTS[@]}" |
        sed 's/[+~-].*//' | paste -s | sed "s/^/$1\t/"
}

# copy_checkout DIRECTORY copies what git knows or would add, and the daemon.
copy_checkout() {
    git ls-files -z --cached --others --exclude-standard |
        tar --null --ignore-failed-read -T - -c 2>/dev/null | tar -x -C "$1"
    mkdir "$1/bin"
    cp bin/coatcheck "$1/bin/"
}

# test_root ROOT SUITE... runs the suites in it; $work/ROOT/results has a line for each.
test_root() {
    local root=$1
    shift
    copy_checkout "$work/$root"
    in_root --net -- "$root" /coatcheck/tools/matrix/inside.sh /coatcheck/results "$@"
}

# print_table FORMAT prints lines of tab-separated columns.
print_table() {
    local -a columns
    while IFS=$'\t' read -ra columns; do
        # shellcheck disable=SC2059 # the formats are those of main
        printf "$1" "${columns[@]}"
    done
}

main() {
    local fresh=''
    if [[ ${1:-} == --fresh ]]; then
        fresh=yes
        shift
    fi
    prepare_machine
    local -a roots=("$@") suites
    (($# > 0)) || roots=("${ROOTS[@]}")
    read -ra suites <<<"${COATCHECK_MATRIX_SUITES:-${SUITES[*]}}"
    mkdir -p "$cache"
    work=$(mktemp -d "${TMPDIR:-/tmp}/coatcheck-matrix.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM

    local root failed=''
    for root in "${roots[@]}"; do
        [[ " ${ROOTS[*]} " == *" $root "* ]] || die "there is no root $root (there are: ${ROOTS[*]})"
        [[ -z $fresh ]] || rm -rf "${cache:?}/$root" "$cache/$root.packages"
        make_root "$root"
        versions "$root" >>"$work/versions"
        say "$root: the suites"
        test_root "$root" "${suites[@]}" || failed=yes
        [[ -s $work/$root/results ]] || die "no suite ran in the root of $root"
        sed "s/^/$root\t/" "$work/$root/results" >>"$work/results"
    done

    printf '\n%-8s %-8s %-10s %-10s %s\n' root PHP Laravel Symfony PHPUnit
    print_table '%-8s %-8s %-10s %-10s %s\n' <"$work/versions"
    printf '\n%-8s %-16s %-10s %-8s %6s %8s %8s\n' root suite mode result tests skipped seconds
    print_table '%-8s %-16s %-10s %-8s %6s %8s %8s\n' <"$work/results"
    [[ -z $failed ]] || die 'a suite failed, or ran no test'
}

main "$@"
