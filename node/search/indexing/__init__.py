"""Makes entities into documents that engines find: the worker's side of the search."""
