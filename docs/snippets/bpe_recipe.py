# docs/snippets/bpe_recipe.py
from pathlib import Path

from glassformer.data.tokenizers.base import TOKENIZERS
from glassformer.data.tokenizers.files import load_tokenizer

config = TOKENIZERS.parse({"kind": "bpe", "vocab": 270})  # as under `tokenizer:` in a recipe
tokenizer = config.train(lambda: ["the lower the river, the slower the rower\n"] * 3)
ids = tokenizer.encode("the slower river")
assert tokenizer.decode(ids) == "the slower river"
assert tokenizer.pairs.encode("the slower river") == ids  # the readable way gives what the fast way gives
tokenizer.save(Path("tokenizer.json"))  # PreTrainedTokenizerFast(tokenizer_file="tokenizer.json") gives the same ids
assert load_tokenizer("tokenizer.json").encode("the slower river") == ids
