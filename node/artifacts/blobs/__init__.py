"""Where the bytes of artifacts are: a directory of the node, or an S3-compatible service."""
