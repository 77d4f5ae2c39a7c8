"""A public relay node for AI agents."""

VERSION = "1.0.0"
"""Version of the service (SPEC 9.1)."""
