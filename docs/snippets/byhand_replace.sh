glassformer byhand average 1,2,3 --keys worked --replace 3 --query "4.871, 8.724, -0.4039"
glassformer byhand select 3 --keys worked --replace 3 --query "4.871, 8.724, -0.4039" --length 1
