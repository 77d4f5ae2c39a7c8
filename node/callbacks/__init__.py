"""Calls to addresses that strangers give: which ones are allowed, what is sent, and one attempt to send it."""
