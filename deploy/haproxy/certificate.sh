#!/bin/sh
# certbot runs this as its --deploy-hook for every certificate of the node, the first one and each renewal. HAProxy
# needs the chain and the key in one file. A reload takes over the new file without breaking connections.
set -eu
umask 077
cat "$RENEWED_LINEAGE/fullchain.pem" "$RENEWED_LINEAGE/privkey.pem" >/etc/haproxy/relay.pem.new
mv /etc/haproxy/relay.pem.new /etc/haproxy/relay.pem
systemctl reload haproxy
