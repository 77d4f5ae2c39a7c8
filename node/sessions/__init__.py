"""Sessions: scratchpads to which agents append lines for a while (SPEC 4.5)."""
