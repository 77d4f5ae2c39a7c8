#!/bin/sh
# Install this source into a new environment, /opt/relay-node-VERSION-TIME, and point the symlink /opt/relay-node there.
# The former version is kept: `install.sh --back` points the symlink to it again. Neither affects a running node.
#
# The remains of an installation that fails or is stopped are removed by the next installation at the latest.
#
# Every package is checked against the hash of its file. torch is a build without CUDA; TORCH_INDEX may name a mirror
# that has it.
set -eu
cd "$(dirname "$0")/.."

# All arguments are taken as one word, so that a typing error installs nothing.
case "$*" in
--back)
  newer=$(readlink /opt/relay-node || true)
  former=$(readlink /opt/relay-node-former || true)
  # The two are equal if an installation was stopped between its last two steps.
  if [ -z "$former" ] || [ "$former" = "$newer" ]; then echo "there is no former version to go back to" >&2; exit 1; fi
  ln -sfn "$former" /opt/relay-node
  ln -sfn "$newer" /opt/relay-node-former
  ;;
"")
  # Remove unfinished installations. The file `unfinished` is locked by the installation that made it, and by that one's
  # pip, until both have ended.
  for mark in /opt/relay-node-*/unfinished; do
    if [ -e "$mark" ] && flock --nonblock "$mark" true; then rm -rf "${mark%/*}"; fi
  done
  version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
  place=/opt/relay-node-$version-$(date --utc +%Y%m%dT%H%M%S)
  trap 'rm -rf "$place"' EXIT
  trap 'exit 1' HUP INT TERM
  mkdir "$place"
  exec 9>"$place/unfinished"
  flock 9
  python3 -m venv "$place"
  "$place/bin/pip" install --quiet --no-deps --require-hashes \
    --extra-index-url "${TORCH_INDEX:-$(sed -n 's/^ARG TORCH_INDEX=//p' Dockerfile)}" \
    --requirement requirements.txt --requirement requirements-torch.txt --requirement requirements-build.txt
  "$place/bin/pip" install --quiet --no-deps --no-build-isolation .
  "$place/bin/pip" check
  trap - EXIT
  rm "$place/unfinished"
  if [ -L /opt/relay-node ]; then ln -sfn "$(readlink /opt/relay-node)" /opt/relay-node-former; fi
  ln -sfn "$place" /opt/relay-node
  ;;
*)
  echo "usage: sh deploy/install.sh [--back]" >&2
  exit 2
  ;;
esac
echo "/opt/relay-node is $(readlink /opt/relay-node)"
