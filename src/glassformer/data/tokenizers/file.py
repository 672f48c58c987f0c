"""A tokenizer that exists already, as a recipe's: a Hugging Face tokenizer.json, GPT-2's merges, or a file of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from pydantic import Field

from glassformer.data.tokenizers.base import TOKENIZERS, Progress, Tokenizer, TokenizerConfig


@TOKENIZERS.variant("file")
class FileTokenizerConfig(TokenizerConfig):
    """A tokenizer from a file: a Hugging Face tokenizer.json (BERT's, ...), GPT-2's own vocab.bpe, or one of ours."""

    learns = False
    file: str = Field(min_length=1)

    def train(self, texts: Callable[[], Iterable[str]], progress: Progress | None = None) -> Tokenizer:
        """Nothing is learned: the texts are not read."""
        from glassformer.data.tokenizers.files import load_tokenizer  # it imports every kind, this one too

        return load_tokenizer(Path(self.file).expanduser())
