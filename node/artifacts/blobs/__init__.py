"""Stores for the bytes of artifacts: a directory of the node, or an S3-compatible service."""
