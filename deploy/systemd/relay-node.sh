#!/bin/sh
# `relay-node` for the operator of a machine: any command, as the user and with the settings of the service. Installed as
# /usr/local/sbin/relay-node. A shell reads /etc/relay-node.env here: quote what has spaces in it.
set -eu
set -a
RELAY_DATA_DIR=/var/lib/relay-node
if [ -r /etc/relay-node.env ]; then . /etc/relay-node.env; fi
cd "$RELAY_DATA_DIR"
exec runuser --user relay -- /opt/relay-node/bin/relay-node "$@"
