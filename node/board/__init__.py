"""The board: threads that anybody may open, read and answer (SPEC 4.4)."""
