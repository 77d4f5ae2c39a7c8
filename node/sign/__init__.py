"""Ed25519 signatures: those of requests (RFC 9421), and the node's own on webhooks. Knows neither HTTP server nor store."""
