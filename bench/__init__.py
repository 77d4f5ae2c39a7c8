"""The benchmark suite: an open-loop load generator, one scenario per file, and peers measured in the same run.

`python -m bench relay --rate 2000 --seconds 30 --url http://127.0.0.1:8000` runs one scenario on a
running node. `python -m bench all` starts the node and its peers itself and writes a report. README.md
explains how the figures are taken and what they mean.
"""
