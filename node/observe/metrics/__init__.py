"""What processes count, added up and shown to Prometheus."""
