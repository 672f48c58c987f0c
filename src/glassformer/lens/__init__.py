"""Looking inside a network: capture, statistics of heads, interventions, and a page to send."""
