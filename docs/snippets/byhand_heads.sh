glassformer byhand heads --out heads.svg
glassformer byhand heads --set alpha=0.01
