"""What an operation costs, and how much of the node one client may have (DESIGN 13)."""
