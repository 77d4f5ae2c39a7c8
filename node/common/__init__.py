"""Small things that every layer may use and that know none: refusals, timestamps, tokens, counters, processes."""
