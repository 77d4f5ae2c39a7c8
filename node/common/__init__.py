"""Small modules for all folders; they use only `config`: refusals, timestamps, tokens, counters, processes."""
