"""Work contracts: offered, claimed by one worker, completed with a result (SPEC 3.1, 4.3)."""
