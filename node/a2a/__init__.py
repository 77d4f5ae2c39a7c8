"""The A2A protocol over the services of the rooms (SPEC 4.2)."""
