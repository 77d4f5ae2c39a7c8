#!/bin/sh
# `relay-node` for the operator of a machine: any command, as the user and with the settings of the service. Installed as
# /usr/local/sbin/relay-node.
#
# The files of settings are systemd's, so they are read as systemd reads them. A shell that ran them would take
# RELAY_REDIS_URL=rediss://host?a=1&b=2 for two commands, and `relay-node check` would vouch for another Redis. Only
# what goes over several lines is not understood here.
set -eu

# Set what a file says: the first `=` ends a name; blank lines and comments count for nothing; quotes around a value go.
settings_of() {
  if [ ! -r "$1" ]; then return; fi
  while IFS= read -r line || [ -n "$line" ]; do
    name=$(trimmed "${line%%=*}")
    case $line in *=*) ;; *) continue ;; esac
    case $name in '' | [0-9]* | *[!A-Za-z0-9_]*) continue ;; esac
    value=$(trimmed "${line#*=}")
    case $value in
      \'*\') value=${value#?} value=${value%?} ;;
      \"*\") value=$(printf '%s\n' "$value" | sed 's/^"//; s/"$//; s/\\\(["\\$`]\)/\1/g') ;;
      *\\*) value=$(printf '%s\n' "$value" | sed 's/\\\(.\)/\1/g') ;;
    esac
    export "$name=$value"
  done <"$1"
}

# A text without the blanks around it.
trimmed() {
  printf '%s\n' "$1" | sed 's/^[[:space:]]*//; s/[[:space:]]*$//'
}

export RELAY_DATA_DIR=/var/lib/relay-node
settings_of /etc/relay-node.env
# Another user of Redis, who may copy it; `check` is about the rights of the node's own.
case ${1-} in admin | restore) settings_of /etc/relay-node-operator.env ;; esac
cd "$RELAY_DATA_DIR"
exec runuser --user relay -- /opt/relay-node/bin/relay-node "$@"
