#!/bin/sh
# Makes .venv-loaders at the root of the checkout: the data loaders of other trainers, for the tests marked `loaders`.
# Usage: make_venv.sh PYTHON      (that of .venv, which is seen behind it; about 0.8 GB of disk, half a minute)
# A finished environment is left alone until requirements.txt changes; an unfinished one is made anew.
set -eu

[ $# -eq 1 ] || { echo "usage: $0 PYTHON" >&2; exit 2; }
python=$1
here=$(cd "$(dirname "$0")" && pwd)
venv=$(cd "$here/../../../.." && pwd)/.venv-loaders
requirements=$here/requirements.txt
stamp=$venv/groundtrace-stamp

hash='import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())'
wanted=$("$python" -c "$hash" "$requirements")
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && "$venv/bin/python" -c '' 2>/dev/null; then
    echo "$venv is up to date"
    exit 0
fi

rm -rf "$venv"
"$python" -m venv "$venv"
# What stands in .venv (torch, pyarrow, Beam, …) is found behind what is installed here.
site='import sysconfig; print(sysconfig.get_path("purelib"))'
"$python" -c "$site" > "$("$venv/bin/python" -c "$site")/groundtrace-core.pth"
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$requirements"
echo "$wanted" > "$stamp"
