"""HTTP for all services: the ASGI application, requests and answers, errors, routes, limits, addresses, signatures."""
