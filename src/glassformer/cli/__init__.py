"""The command line: one small module per verb. Each parses, calls one function and prints."""
