"""How workers find a contract: in lists, told of each that is put on offer, by a search, or as the next that fits."""
