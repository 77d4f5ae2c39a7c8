#!/bin/sh
# Run any `relay-node` command as the user of the service and with its settings, for the operator of a machine.
# Installed as /usr/local/sbin/relay-node.
#
# The settings files are meant for systemd, so they are parsed as systemd does. If a shell executed them, it would take
# RELAY_REDIS_URL=rediss://host?a=1&b=2 for two commands, and `relay-node check` would check another Redis. Unlike
# systemd, this script does not understand values that span several lines.
set -eu

# Export the settings of a file. The first `=` ends a name. Blank lines and comments are ignored. Quotes around a value
# are removed.
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

# Print a text without surrounding whitespace.
trimmed() {
  printf '%s\n' "$1" | sed 's/^[[:space:]]*//; s/[[:space:]]*$//'
}

export RELAY_DATA_DIR=/var/lib/relay-node
settings_of /etc/relay-node.env
# These commands need another Redis user, who may copy its data. `check` is about the rights of the node's own user.
case ${1-} in admin | restore) settings_of /etc/relay-node-operator.env ;; esac
cd "$RELAY_DATA_DIR"
exec runuser --user relay -- /opt/relay-node/bin/relay-node "$@"
