# docs/snippets/generation.py
from glassformer.generation.generate import generate
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model

model = build_model(ModelConfig(width=32, layers=2, heads=2, context=16), 65, seed=1)
prompts = [[7], [1, 2, 3], list(range(40))]  # ids; the last prompt is longer than the context
settings = {"max_new_tokens": 30, "temperature": 0.8, "top_p": 0.9, "seeds": [5, 6, 7]}

together = generate(model, prompts, **settings)
one_by_one = generate(model, prompts, use_cache=False, **settings)
print("same ids:", together == one_by_one, "| ended by:", {text.reason for text in together})
