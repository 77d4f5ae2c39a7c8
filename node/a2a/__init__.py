"""The A2A protocol over the services of the features (SPEC 4.2)."""
