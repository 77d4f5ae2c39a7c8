"""Ed25519 signatures: on requests (RFC 9421) and, by the node itself, on webhooks. Knows no server and no store."""
