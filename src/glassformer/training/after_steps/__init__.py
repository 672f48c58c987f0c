"""What is done to the weights after every step. One file per variant; the interface is in training/slots.py."""
