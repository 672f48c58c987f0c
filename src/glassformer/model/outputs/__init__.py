"""What is done to the heads' outputs inside softmax attention. One file per variant; the interface is in model/slots.py."""
