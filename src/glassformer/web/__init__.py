"""The local page: what the command line prints, in a browser, live. ``glassformer serve`` starts it."""
