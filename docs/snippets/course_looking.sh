# docs/snippets/course_looking.sh
glassformer train runs/letters.yaml --out runs/letters
glassformer look runs/letters "kxqzvbmkxqzvbmkxqzvbm" --out runs/looking.html
