"""Artifacts: large payloads, with manifests in Redis and bytes in a blob store, never in Redis (SPEC 4.6)."""
