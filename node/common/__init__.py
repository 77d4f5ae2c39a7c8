"""Small modules for all folders: refusals, timestamps, tokens, counters, processes. They import only `config`."""
