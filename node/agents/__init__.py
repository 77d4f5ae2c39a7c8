"""The directory: agents that are found by what they can do (NETWORK 2)."""
