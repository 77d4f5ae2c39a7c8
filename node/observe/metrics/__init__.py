"""What processes count, added up and exported to Prometheus."""
