#!/bin/sh
# certbot runs this with each certificate of the node, the first and renewed ones, as its --deploy-hook. HAProxy takes chain
# and key from one file, and goes on with the new one without a broken connection.
set -eu
umask 077
cat "$RENEWED_LINEAGE/fullchain.pem" "$RENEWED_LINEAGE/privkey.pem" >/etc/haproxy/relay.pem.new
mv /etc/haproxy/relay.pem.new /etc/haproxy/relay.pem
systemctl reload haproxy
