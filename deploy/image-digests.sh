#!/bin/sh
# A tag can be moved to another image at any time; a digest cannot. For each image that compose.yaml and the Dockerfile
# name, this prints the digest that its tag has in the registry now, as a line for .env:
#
#   REDIS_IMAGE=redis:8.2@sha256:...
#
# Run it again to switch to newer images.

set -eu
cd "$(dirname "$0")/.."
sed -n 's/.*\${\([A-Z]*_IMAGE\):-\([^}]*\)}.*/\1 \2/p' compose.yaml | sort -u | while read -r name image; do
  digest=$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$image")
  echo "$name=$image@$digest"
done
