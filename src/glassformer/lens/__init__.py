"""Looking inside a network: capture, readouts, interventions, and a page to send."""
