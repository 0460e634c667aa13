#!/usr/bin/env bash
# Write constraints.txt anew: every package of the development environment at the newest version that fits pyproject.toml.
#
# A clean environment is made for it, so that nothing installed by hand gets in. Versions only, no addresses: where a
# package comes from is the business of whoever installs it.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${1:-.venv/bin/python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m venv "$work/venv"
pip=("$work/venv/bin/python" -m pip --disable-pip-version-check --quiet)
"${pip[@]}" install hatchling
"${pip[@]}" install --no-build-isolation --editable '.[dev,all,local]'
"${pip[@]}" check

{
  echo "# Every package of the development environment. Made by 'make constraints'; do not edit by hand."
  "${pip[@]}" freeze --exclude-editable --exclude novelo
} >"$work/constraints.txt"

if grep -nE '@|://|^-' "$work/constraints.txt"; then
  echo "these lines name a place instead of a version; constraints.txt is left as it was" >&2
  exit 1
fi
mv "$work/constraints.txt" constraints.txt
echo "constraints.txt: $(grep -c == constraints.txt) packages"
