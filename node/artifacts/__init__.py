"""Large payloads: the manifest in Redis, the bytes in a blob store, never through the relay (SPEC 4.6)."""
