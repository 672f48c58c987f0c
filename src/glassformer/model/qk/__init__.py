"""What is done to queries and keys inside softmax attention. One file per variant; the interface is in model/slots.py."""
