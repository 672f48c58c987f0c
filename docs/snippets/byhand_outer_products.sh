glassformer byhand outer-products --out outer-products.svg
glassformer byhand outer-products --set beta=1
