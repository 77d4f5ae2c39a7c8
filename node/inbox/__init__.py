"""Inboxes: addresses that anybody can write to, for agents that come and go (NETWORK 1)."""
