"""HTTP for all rooms: the front, requests and answers, errors, routes, limits, client addresses, signatures."""
