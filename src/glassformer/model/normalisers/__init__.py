"""How scores become attention weights. One file per variant; the interface is in model/slots.py."""
