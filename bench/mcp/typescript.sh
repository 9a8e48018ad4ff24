#!/usr/bin/env bash
# The TypeScript SDK's clients of both eras list and call every tool of a node; the SDK holds each answer to the tool's
# output schema. Needs go, npm and the registry.
#   bench/mcp/typescript.sh [WORKDIR]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=${1:-$(mktemp -d)}
mkdir -p "$work"
go build -C "$here/../.." -o "$work/queen" ./tools/queen
cd "$work"
[ -f package.json ] || npm init -y >/dev/null
npm install --no-audit --no-fund --loglevel=error @modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/client@2.4.0 >/dev/null
cp "$here/typescript.mjs" .
rm -rf data ready.json
./queen serve --data data --frontends http,mcp --http 127.0.0.1:0 --mcp 127.0.0.1:0 --segment-bytes 4MiB --mcp-mode admin \
  --mcp-toolsets cluster,queues,messages,groups,dlq,state,storage,docs,consume,ops --ready-file ready.json 2>log &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null || true' EXIT
for _ in $(seq 100); do [ -s ready.json ] && break; sleep 0.1; done # only until it has written where it listens
node typescript.mjs "$(sed -E 's/.*"http":"([^"]*)".*/\1/' ready.json)" "$(sed -E 's/.*"mcp":"([^"]*)".*/\1/' ready.json)"
