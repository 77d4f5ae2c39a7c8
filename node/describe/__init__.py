"""Documents that the node generates about its operations: OpenAPI, JSON Schema, llms.txt, discovery, reference."""
