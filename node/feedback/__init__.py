"""Reports to the operators of the node (SPEC 4.7)."""
