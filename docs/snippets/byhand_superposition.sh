glassformer byhand superposition --out superposition.svg
