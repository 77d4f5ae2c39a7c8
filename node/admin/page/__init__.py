"""The operator's pages on the admin port: what the commands show and do, in a browser."""
