# shellcheck shell=bash
# What the demo needs before it starts: programs, an ordinary user, a built sandboxd, and what npm and pip install.
# shellcheck disable=SC2034,SC2154 # Variables are shared with scripts/demo.

check_programs() { # COMMAND:PACKAGE...
    local pair missing=()
    for pair in "$@"; do
        command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
    done
    # A Python that is not there cannot tell.
    if command -v python3 >/dev/null && ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
        missing+=(python3-venv)
    fi
    ((${#missing[@]})) || return 0
    if [[ $install != yes ]]; then
        fail "not installed here: ${missing[*]} (the names of Debian's and Ubuntu's packages)" \
            "install them with your package manager; as root, \`scripts/demo --install\` does it with apt-get"
    fi
    ((EUID == 0)) || fail "only root can install packages: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    if ! apt-get update -q || ! apt-get install -q -y --no-install-recommends "${missing[@]}"; then
        fail "apt-get could not install ${missing[*]}; it says why above"
    fi
}

check_versions() {
    node -e 'process.exit(parseInt(process.versions.node) >= 18 ? 0 : 1)' ||
        fail "expected Node.js 18 or newer, found $(node --version) at $(command -v node)"
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
        fail "expected Python 3.10 or newer, found $(python3 --version) at $(command -v python3)"
}

# Sets `built`.
build() {
    if [[ -n ${SANDBOXD:-} ]]; then
        [[ -f $SANDBOXD ]] || fail "SANDBOXD names no program: $SANDBOXD"
        built=$(realpath -- "$SANDBOXD")
        ok "built before: $built"
        return
    fi
    command -v cargo >/dev/null || fail "there is no cargo here: install Rust, or name a built sandboxd in SANDBOXD"
    say "cargo build --release -p sandboxd (the first time takes some minutes)"
    local quiet=(--quiet)
    [[ ! -t 2 ]] || quiet=()
    (cd "$checkout" && cargo build --release --locked "${quiet[@]}" -p sandboxd) ||
        fail "cargo could not build sandboxd; it says why above (the first time it needs the network)"
    local target=${CARGO_TARGET_DIR:-target} triple
    triple=$(rustc -vV | sed -n 's/^host: //p')
    built=$(cd "$checkout" && realpath -- "$target/$triple/release/sandboxd")
    ok "$built"
}

# Sets `user` and `home`.
choose_user() {
    local owner
    owner=$(stat -c %U -- "$checkout")
    if [[ -n ${SANDBOXD_DEMO_USER:-} ]]; then
        user=$SANDBOXD_DEMO_USER
    elif [[ $owner != root && $owner != UNKNOWN ]]; then
        user=$owner
    elif getent passwd "sandboxd-test" >/dev/null; then
        user="sandboxd-test"
    else
        fail "a session never runs as root, and this checkout is root's: name a user, for example" \
            "  useradd --create-home demo && SANDBOXD_DEMO_USER=demo scripts/demo"
    fi
    home=$(getent passwd "$user" | cut -d: -f6) || fail "there is no user $user"
    [[ $(id -u "$user") -ne 0 ]] || fail "$user is root: name an ordinary user in SANDBOXD_DEMO_USER"
    [[ -d $home ]] || fail "$user has no home directory: $home"
}

# As root: does the rest as the user, from copies that it can read. `built` is set.
go_on_as_user() {
    local name pass=()
    staged=$(mktemp -d /tmp/sandboxd-demo.XXXXXX)
    cp -r -- "$here/demo" "$here/demo.d" "$built" "$staged/"
    chmod -R go=u-w -- "$staged"
    say "You are root, and a session never is: the rest runs as $user."
    # What fails there is told there.
    title=""
    # Of root's environment the user gets what says how to reach a registry.
    for name in $(compgen -e); do
        case ${name,,} in
        http_proxy | https_proxy | no_proxy | ssl_cert_file | node_extra_ca_certs | pip_cert | pip_index_url | npm_config_registry)
            pass+=("$name=${!name}") ;;
        esac
    done
    setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups --inh-caps=-all \
        env -i -C "$home" "HOME=$home" "USER=$user" "LOGNAME=$user" "TERM=${TERM:-dumb}" LANG=C.UTF-8 "PATH=$user_path" \
        "${pass[@]}" "SANDBOXD=$staged/${built##*/}" "SANDBOXD_DEMO_DIR=${SANDBOXD_DEMO_DIR:-$home/.cache/sandboxd-demo}" \
        "SANDBOXD_DEMO_BEGUN=$SECONDS" bash "$staged/demo" ${repository:+"$repository"} || exit 1
}

# once DIRECTORY WHAT INSTALL: fills a directory by INSTALL, unless just this is in it.
once() {
    if [[ -f $1/installed && $(<"$1/installed") == "$2" ]]; then
        ok "installed before in $1"
        return
    fi
    say "This needs the network."
    rm -rf -- "$1"
    mkdir -p -- "$1"
    "$3" "$1" || fail "could not install $2: the reason stands above" "(without a network, or a mirror of the package registry, there is no demo)"
    printf '%s' "$2" >"$1/installed"
    ok "$1"
}

# Not with --prefix: that would hide the machine's own npmrc, with its registry and certificates.
install_servers() {
    printf '{ "private": true }\n' >"$1/package.json"
    (cd "$1" && npm install --save-exact --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error \
        --fetch-retries=1 --fetch-retry-mintimeout=1000 "${servers[@]}" >/dev/null)
}

install_client() {
    python3 -m venv "$1" && "$1/bin/pip" install --quiet --disable-pip-version-check --retries 1 "${client[@]}"
}
