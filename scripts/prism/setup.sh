#!/bin/bash
# Build Prism, Beam's local runner in Go, of the version of Beam that is installed; there is nothing to download ready-made.
. "$(dirname "$0")/../engines.sh"
need_command go golang
version=$("$PYTHON" -c 'import apache_beam; print(apache_beam.__version__)')
[ -e "$PARTS/bin/prism" ] || GOBIN="$PARTS/bin" go install "github.com/apache/beam/sdks/v2/go/cmd/prism@v$version"
