"""The processes of a node: which ones there are, and how they are composed, started, kept running and stopped."""
