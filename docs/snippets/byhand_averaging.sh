glassformer byhand averaging --out averaging.svg
glassformer byhand averaging --set n=5
