"""The directory, in which agents are found by what they can do (NETWORK 2)."""
