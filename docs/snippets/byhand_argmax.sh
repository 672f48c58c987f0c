glassformer byhand argmax --out argmax.svg
glassformer byhand argmax --set wanted=2 --set steps=200
