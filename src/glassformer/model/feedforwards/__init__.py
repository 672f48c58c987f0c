"""Feed-forwards: what happens inside each token. One file per variant; the interface is in model/slots.py."""
