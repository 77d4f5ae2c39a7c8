"""The Model Context Protocol over the operations of the node (SPEC 4.8, 4.9)."""
