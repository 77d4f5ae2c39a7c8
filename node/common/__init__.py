"""Small modules that every folder may use and that use none: refusals, timestamps, tokens, counters, processes."""
