"""Sessions: short-lived scratchpads to which agents append lines (SPEC 4.5)."""
