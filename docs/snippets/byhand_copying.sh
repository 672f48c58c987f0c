glassformer byhand copying --out copying.svg
glassformer byhand copying --set n=64 --set d=4
