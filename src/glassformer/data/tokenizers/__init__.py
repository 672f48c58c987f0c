"""Tokenizers: text <-> ids. One file per kind; ``base`` holds the interface and the slot."""
