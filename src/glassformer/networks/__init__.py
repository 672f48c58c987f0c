"""Networks: the variants of the slot ``model``. One file per kind; the interface is in model/network.py."""
