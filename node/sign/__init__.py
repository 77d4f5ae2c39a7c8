"""Ed25519 signatures: those on requests (RFC 9421) and the node's own on webhooks. Knows no server and no store."""
