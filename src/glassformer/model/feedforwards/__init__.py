"""Feed-forwards: what is computed for each token alone. One file per variant; the interface is in model/slots.py."""
