"""The relay: judges a message, keeps it once and acknowledges it (SPEC 4.1)."""
