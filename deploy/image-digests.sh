#!/bin/sh
# A tag can be given to another image at any time; a digest is of one. This prints, for each image that compose.yaml
# and the Dockerfile name, what its tag means at the registry now, as lines for .env:
#
#   REDIS_IMAGE=redis:8.2@sha256:...
#
# Run it again to take newer images on.

set -eu
cd "$(dirname "$0")/.."
sed -n 's/.*\${\([A-Z]*_IMAGE\):-\([^}]*\)}.*/\1 \2/p' compose.yaml | sort -u | while read -r name image; do
  digest=$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$image")
  echo "$name=$image@$digest"
done
