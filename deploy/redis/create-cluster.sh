#!/bin/sh
# Create a Redis Cluster from empty servers: half of them become primaries, each with a replica. An existing cluster is
# left unchanged, so this may run at every start.
#
#   create-cluster.sh host:port host:port ...
set -eu

host=${1%:*}
port=${1##*:}

ask() {
  redis-cli -h "$host" -p "$port" "$@"
}

for server in "$@"; do
  until [ "$(redis-cli -h "${server%:*}" -p "${server##*:}" ping 2>/dev/null)" = PONG ]; do sleep 0.2; done
done
if ask cluster info | grep -q '^cluster_slots_assigned:16384'; then
  echo "the cluster is there"
else
  redis-cli --cluster create "$@" --cluster-replicas 1 --cluster-yes
fi
until ask cluster info | grep -q '^cluster_state:ok'; do sleep 0.2; done
