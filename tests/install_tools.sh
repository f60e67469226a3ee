#!/bin/sh
# Installs what the system tests need beyond Python: Node's stand-ins and a way to make a network.
set -eu
if ! command -v ip >/dev/null 2>&1; then
  apt-get update -qq && apt-get install -y -qq iproute2
fi
if ! command -v npm >/dev/null 2>&1; then
  apt-get update -qq && apt-get install -y -qq nodejs npm
fi
cd "$(dirname "$0")"
npm install --no-package-lock --no-audit --no-fund --silent
