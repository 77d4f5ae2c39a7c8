"""How workers find a contract: in lists, in a feed of new offers, by a search, or as the next one that fits."""
