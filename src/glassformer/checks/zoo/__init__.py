"""The laws on every causal class of the installed transformers, in tiny form."""
