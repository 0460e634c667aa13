#!/usr/bin/env bash
# Make the development environment in .venv: a Python of its own, every package at the version of constraints.txt, and
# novelo itself, editable. Called by make when .venv is missing or older than what describes it; safe to call again.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv
stamp=$venv/.set-up
oldest=3.11

say() { printf 'set-up: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

# The first Python that is new enough, by its own word; nothing is printed when there is none.
find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python3.14 python; do
    if [ -n "$candidate" ] && "$candidate" -c \
      "import sys; sys.exit(sys.version_info < tuple(map(int, '$oldest'.split('.'))))" >/dev/null 2>&1; then
      command -v "$candidate"
      return
    fi
  done
}

# A Python without venv or ensurepip is usual on Debian and Ubuntu, where they are a package of their own.
can_make_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

# Install system packages where that is allowed; elsewhere the caller says what is missing.
apt_install() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  say "installing $* with apt-get"
  DEBIAN_FRONTEND=noninteractive apt-get update -qq >/dev/null &&
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >/dev/null
}

python=$(find_python)
if [ -z "$python" ]; then
  apt_install python3 python3-venv || true
  python=$(find_python)
fi
if [ -z "$python" ]; then
  fail "Python $oldest or newer is needed and none was found ($(python3 --version 2>/dev/null || echo 'no python3 at all'))." \
    "Install one (Debian 12, Ubuntu 24.04 or newer: apt-get install python3 python3-venv) or name it: make test PYTHON=/path/to/python3"
fi
if ! can_make_venv "$python"; then
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  apt_install "python$version-venv" || apt_install python3-venv || true
  can_make_venv "$python" ||
    fail "$python has no venv or ensurepip module. Install it (Debian and Ubuntu, as root: apt-get install python$version-venv) and try again."
fi

# An environment whose Python is gone or too old cannot be mended, only made anew.
if [ -d "$venv" ] && ! "$venv/bin/python" -c \
  "import pip, sys; sys.exit(sys.version_info < tuple(map(int, '$oldest'.split('.'))))" >/dev/null 2>&1; then
  say "$venv does not work here, making it anew"
  rm -rf "$venv"
fi
[ -d "$venv" ] || { say "making $venv with $python (once, a minute or two)"; "$python" -m venv "$venv"; }

# The build backend is installed first, at its pinned version, so that building novelo fetches nothing unpinned.
pip=("$venv/bin/python" -m pip --disable-pip-version-check -q)
{ "${pip[@]}" install --constraint constraints.txt hatchling &&
  "${pip[@]}" install --constraint constraints.txt --no-build-isolation --editable '.[dev,all]'; } ||
  fail "pip could not install the packages, see its message above. If it names the network, check pip's own configuration: pip config list"
pwd -P >"$stamp"
say "ready: $("$venv/bin/python" --version), $(grep -c == constraints.txt) pinned packages"
