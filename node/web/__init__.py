"""HTTP for all features: the ASGI application, requests and answers, errors, routes, limits, addresses, signatures."""
