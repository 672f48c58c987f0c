# docs/snippets/bpe_by_hand.py
from glassformer.data.tokenizers.bpe_training import train
from glassformer.data.tokenizers.pretokenization import LEVELS

words = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
pairs = train(words, LEVELS["char"], vocab=20)
for left, right, merged in pairs.merges:
    print(f"{pairs.tokens[left]} + {pairs.tokens[right]} -> {pairs.tokens[merged]}")
print([pairs.tokens[token] for token in pairs.encode("lowest")])
