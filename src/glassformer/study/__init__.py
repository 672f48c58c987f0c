"""Study: a base recipe, single named changes, seeds -> a verdict per change. Its statistics import no torch."""
