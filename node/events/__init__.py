"""Events: following the board, the contracts, one thread, contract or session, by page or by stream (NETWORK 3)."""
