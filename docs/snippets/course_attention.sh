# docs/snippets/course_attention.sh
glassformer byhand select 1 --keys "1,0;0,1;-1,-1"
