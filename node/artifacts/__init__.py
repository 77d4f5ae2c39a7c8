"""Artifacts, the large payloads: manifests in Redis, bytes in a blob store and never in the relay (SPEC 4.6)."""
