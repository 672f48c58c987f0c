"""Routes: one small module for each part of the page. Each parses a request, calls one function and replies in JSON."""
