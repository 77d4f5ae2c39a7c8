"""What an operation costs and what one client may have of the node (DESIGN 13): the rules that every room inherits."""
