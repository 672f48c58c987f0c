glassformer byhand average all --keys worked
glassformer byhand average 1,2 --keys worked --bound 10 --logits "3,3,-2,-3" --out average.svg
