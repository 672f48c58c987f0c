glassformer byhand weights "1/4,1/2,1/4" --keys "0;1;2"
