"""Makes each inbox an A2A agent of its own: two bindings over one service (NETWORK 1)."""
