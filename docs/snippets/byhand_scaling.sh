glassformer byhand scaling --out scaling.svg
glassformer byhand scaling --set deviation=0.5
