glassformer byhand attend --query "-2,1,1" --keys "0,1,2; 1,1,2; -1,1,-2; 0,-1,-2" --values "3,2,-4; 3,-2,4; 3,2,0; 3,2,0"
glassformer byhand attend --query "-2,1,1" --keys "0,1,2; 1,1,2; -1,1,-2; 0,-1,-2" --values "3,2,-4; 3,-2,4; 3,2,0; 3,2,0" --argmax --mask 1
