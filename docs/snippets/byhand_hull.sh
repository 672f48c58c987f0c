glassformer byhand select 1 --keys "0,0; 4,0; 0,4; -4,-4; 9,9"
