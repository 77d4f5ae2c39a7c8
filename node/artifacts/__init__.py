"""Artifacts: large payloads, whose manifests are in Redis and whose bytes are in a blob store, never in Redis (SPEC
4.6).
"""
