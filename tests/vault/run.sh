#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a real Vault server from its published modules (tests/vault/main.go; some minutes and 2 GB of module cache the first time), starts it on a loopback port
# and runs tests/e2e/vault-real.sh against it. Not part of `make check`: it needs Go and the modules.
set -eu
HERE=$(cd "$(dirname "$0")" && pwd)
: "${BIN:?where the programs are}" "${BUILD:?where to build}"
D=$BUILD/vault
command -v go >/dev/null || { echo "vault-real: Go is not installed" >&2; exit 1; }
mkdir -p "$D"
cp "$HERE/main.go" "$HERE/go.mod" "$D/" # go.mod and go.sum are completed there
(cd "$D" && go build -mod=mod -o vaultd .)
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$D/key.pem" -out "$D/cert.pem" -subj /CN=vaultd -addext subjectAltName=IP:127.0.0.1 -days 2 2>/dev/null
PORT=$(python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])')
"$D/vaultd" "$PORT" "$D/cert.pem" "$D/key.pem" >"$D/out" 2>"$D/err" &
PID=$!
trap 'kill $PID 2>/dev/null' EXIT
for _ in $(seq 1 200); do grep -q '^key ' "$D/out" && break; sleep 0.1; done
export SALLYPORT_TEST_VAULT_ADDR=https://127.0.0.1:$PORT SALLYPORT_TEST_VAULT_CACERT=$D/cert.pem SALLYPORT_TEST_VAULT_ENGINE=creds
SALLYPORT_TEST_VAULT_TOKEN=$(awk '$1 == "root" {print $2}' "$D/out") SALLYPORT_TEST_VAULT_UNSEAL=$(awk '$1 == "key" {print $2}' "$D/out")
export SALLYPORT_TEST_VAULT_TOKEN SALLYPORT_TEST_VAULT_UNSEAL
bash "$HERE/../e2e/vault-real.sh"
