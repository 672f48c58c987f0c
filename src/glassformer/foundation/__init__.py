"""Foundation: configs, registries, errors, files, seeds and the runtime, known to every layer above."""
