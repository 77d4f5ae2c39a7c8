"""The relay: a message is judged, kept once and acknowledged (SPEC 4.1)."""
