"""How entities become documents that engines find: the worker's side of the search."""
