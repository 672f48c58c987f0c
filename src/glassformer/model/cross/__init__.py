"""How a decoder attends to what the encoder made of the source: one file per variant."""
