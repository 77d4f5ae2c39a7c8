"""Text: whether it is English, which parts of it may be shown, and its search terms. Import modules by their own names:
`verdict` loads cld3 at the first verdict that needs it, so a process that judges no texts does not load it."""
