#!/bin/sh
# Install what the browser tests need: Debian's chromium, and axe-core from npm into build/npm.
# Where either cannot be had (no root, no apt, no network), say so and go on: the tests that need it are skipped by name.
set -u
cd "$(dirname "$0")/.." || exit 1

say() { echo "install-browser: $*" >&2; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_chromium() {
    command -v apt-get >/dev/null || return 1
    DEBIAN_FRONTEND=noninteractive
    export DEBIAN_FRONTEND
    as_root apt-get install -y -q --no-install-recommends chromium fonts-inter fonts-ipafont-gothic >/dev/null 2>&1 && return 0
    as_root apt-get update -q >/dev/null 2>&1 || return 1
    as_root apt-get install -y -q --no-install-recommends chromium fonts-inter fonts-ipafont-gothic >/dev/null 2>&1
}

if [ ! -x /usr/bin/chromium ]; then
    install_chromium || say "chromium cannot be installed here; the browser tests will be skipped"
fi

if [ ! -f build/npm/node_modules/axe-core/axe.min.js ]; then
    mkdir -p build/npm
    cp tests/e2e/package.json build/npm/
    { command -v npm >/dev/null && npm install --prefix build/npm --no-audit --no-fund --silent >/dev/null 2>&1; } ||
        say "axe-core cannot be installed here; the accessibility test will be skipped"
fi
exit 0
