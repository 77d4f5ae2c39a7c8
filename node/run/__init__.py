"""The processes of a node: which there are, how they are put together, started, stopped and kept."""
