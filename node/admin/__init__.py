"""The operator's commands: check, backup, restore, verify, and `relay-node admin`."""
