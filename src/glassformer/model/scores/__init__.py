"""What is done to scores inside softmax attention. One file per variant; the interface is in model/slots.py."""
