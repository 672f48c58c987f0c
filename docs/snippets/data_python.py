# docs/snippets/data_python.py
from pathlib import Path

from glassformer.data.config import DataConfig
from glassformer.data.prepare import prepare
from glassformer.data.tokenizers.word import WordTokenizerConfig

Path("notes.jsonl").write_text('{"body": "They don\'t."}\n{"body": "They do."}\n{"body": "Do they?"}\n' * 4)
config = DataConfig(path="notes.jsonl", text_column="body")
data = prepare(config, WordTokenizerConfig(min_count=1))
train = data.split("train")
print(train.num_documents, "documents,", train.num_tokens, "tokens")
print([data.tokenizer.token_text(token) for token in train.document(0)])
