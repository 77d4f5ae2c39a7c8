"""`relay-node admin`: a module for each group of commands."""
