"""HTTP for all rooms: the ASGI application, requests and answers, errors, routes, limits, addresses, signatures."""
