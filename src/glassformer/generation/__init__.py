"""Generation: prompts (ids) -> new ids. ``generate.generate`` is the front door."""
