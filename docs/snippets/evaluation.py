# docs/snippets/evaluation.py
import numpy as np
import torch

from glassformer.evaluation.language_baselines import trivial_baselines
from glassformer.evaluation.language_metrics import EvaluatedText
from glassformer.evaluation.token_losses import evaluate_language

lines = ["the cat sat on the mat. ", "a dog sat on a log. ", "the dog and the cat sat. "] * 40
training, held_out = lines[:90], lines[90:]
letters = sorted(set("".join(lines)))


def ids(texts):
    return np.array([letters.index(letter) for letter in "".join(texts)])


text = EvaluatedText(
    tokens=ids(held_out),
    starts=np.cumsum([0, *(len(line) for line in held_out[:-1])]),  # a line is a document
    byte_lengths=np.ones(len(letters)),
    words=np.array([len(line.split()) for line in held_out]),
    characters=np.array([len(line) for line in held_out]),
)


def model(ids_BT):  # any callable from ids to logits; this one says that a letter comes twice
    return 2.0 * torch.nn.functional.one_hot(ids_BT, len(letters)).float()


result = evaluate_language(model, text, name="lines", context=16, baselines=trivial_baselines(ids(training), len(letters)))
print(result)
