# docs/snippets/course_curves.sh
mkdir -p runs
python -c "import this" > runs/zen.txt
head -n 12 runs/zen.txt > runs/few.txt
glassformer train runs/few.txt --out runs/overfitted --set data.document=line --set model.width=64 \
  --set training.lr=3e-3 --set training.steps=400 --set evaluation.every=20
glassformer train docstrings-char --out runs/cold --set model.layers=1 --set model.width=32 --set model.context=32 \
  --set training.steps=100 --set training.lr=1e-6
