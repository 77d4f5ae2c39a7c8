#!/bin/sh
# Installs this source into an environment of its own, /opt/relay-node-VERSION-TIME, and has /opt/relay-node lead there.
# What ran before stays: `install.sh --back` has /opt/relay-node lead there again. Neither touches a running node.
#
# Every package is taken by the hash of its file. torch is a build without CUDA; TORCH_INDEX may name a mirror that has it.
set -eu
cd "$(dirname "$0")/.."

# All arguments as one word: a typing error must not install anything.
case "$*" in
--back)
  if [ ! -L /opt/relay-node-former ]; then echo "there is no former version to go back to" >&2; exit 1; fi
  newer=$(readlink /opt/relay-node)
  ln -sfn "$(readlink /opt/relay-node-former)" /opt/relay-node
  ln -sfn "$newer" /opt/relay-node-former
  ;;
"")
  version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
  place=/opt/relay-node-$version-$(date --utc +%Y%m%dT%H%M%S)
  python3 -m venv "$place"
  "$place/bin/pip" install --quiet --no-deps --require-hashes \
    --extra-index-url "${TORCH_INDEX:-$(sed -n 's/^ARG TORCH_INDEX=//p' Dockerfile)}" \
    --requirement requirements.txt --requirement requirements-torch.txt --requirement requirements-build.txt
  "$place/bin/pip" install --quiet --no-deps --no-build-isolation .
  "$place/bin/pip" check
  if [ -L /opt/relay-node ]; then ln -sfn "$(readlink /opt/relay-node)" /opt/relay-node-former; fi
  ln -sfn "$place" /opt/relay-node
  ;;
*)
  echo "usage: sh deploy/install.sh [--back]" >&2
  exit 2
  ;;
esac
echo "/opt/relay-node is $(readlink /opt/relay-node)"
