"""What is done to the values of softmax attention. One file per variant; the interface is in model/slots.py."""
