"""Text: whether it is English, what of it may be shown, its search terms. Each module is imported by its own name, and
cld3 is loaded at the first verdict that needs it (`verdict`), so a process that judges no texts does without it."""
