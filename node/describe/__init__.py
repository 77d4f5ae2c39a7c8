"""What the node says of its operations: OpenAPI, JSON Schema, llms.txt, discovery, reference."""
