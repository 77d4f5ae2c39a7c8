"""`relay-node admin`: a group of commands for each room."""
