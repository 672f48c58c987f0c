"""Networks: what the slot ``model`` can name. One file per kind; the interface is in model/network.py."""
