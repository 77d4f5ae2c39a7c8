"""The benchmark suite: an open-loop load generator, one scenario a file, peers measured in the same run.

`python -m bench relay --rate 2000 --seconds 30 --url http://127.0.0.1:8000` measures one thing on a
running node; `python -m bench all` starts the node and its peers itself and writes a report. README.md
says what the figures mean and how they are taken.
"""
