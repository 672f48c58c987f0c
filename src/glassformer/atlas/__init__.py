"""The atlas: published changes of a Transformer, each a row with its claim, and whether it held here, computed from records."""
