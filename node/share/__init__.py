"""The cost of each operation, and the share of the node that one client may have (DESIGN 13)."""
