"""One run on several processes: who they are, how they sum gradients, how they start and how they end together."""
