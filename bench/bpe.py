"""Byte-pair encoding against its peers: seconds and ratios, in one run, in turns, on the same cores.

    python bench/bpe.py FILE [--vocab 8192] [--repeats 5] [--minbpe FOLDER] [--out RESULT.json]

Training: from the file on disk to the list of merges, by ours and by the trainer of Hugging Face's ``tokenizers``; the
lists must be equal. Encoding: the lines of the file to lists of ids, each time with a tokenizer that has seen nothing
yet. Readable: the merges of words without any memory of words, against replaying all merges. With ``--minbpe`` a
user's folder of minbpe is trained too, on the beginning of the file, because the whole would take it hours.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import platform
import random
import statistics
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tokenizers

from glassformer.data.reading.readers import lines, to_text
from glassformer.data.tokenizers.bpe import BPETokenizer
from glassformer.data.tokenizers.bpe_training import BytePairs, train
from glassformer.data.tokenizers.pretokenization import LEVELS, count_words
from glassformer.foundation.files import write_json

BYTE = LEVELS["byte"]
GATES = {"training": 1.5, "encoding": 1.1, "readable": 1 / 50}
"""The highest ratio (ours to theirs) that is promised for wikitext-2 and a vocabulary of 8192 on two cores."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--vocab", type=int, default=8192)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--minbpe", type=Path, metavar="FOLDER", help="a copy of minbpe")
    parser.add_argument("--minbpe-bytes", type=int, default=200_000)
    parser.add_argument("--minbpe-vocab", type=int, default=512)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the result as JSON")
    options = parser.parse_args()
    result = measure(options.file, options.vocab, options.repeats)
    if options.minbpe is not None:
        result["minbpe"] = against_minbpe(options.file, options.minbpe, options.minbpe_bytes, options.minbpe_vocab)
    print_result(result)
    if options.out is not None:
        write_json(options.out, result)


def measure(file: Path, vocab: int, repeats: int) -> dict[str, Any]:
    trained: dict[str, Any] = {}

    def ours() -> None:
        trained["ours"] = train(count_words(_lines(file), BYTE), BYTE, vocab=vocab)

    def theirs() -> None:
        trained["theirs"] = _library_trained(file, vocab)

    training = in_turns({"ours": ours, "tokenizers": theirs}, repeats)
    pairs: BytePairs = trained["ours"]
    library = json.loads(trained["theirs"].to_str())["model"]["merges"]
    same = [[pairs.tokens[left], pairs.tokens[right]] for left, right, _ in pairs.merges] == library
    texts = list(_lines(file))
    return {
        "file": {"name": file.name, "bytes": file.stat().st_size, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()},
        "vocab": vocab,
        "repeats": repeats,
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "load_before": os.getloadavg()[0],
            "python": platform.python_version(),
        }
        | {"tokenizers": tokenizers.__version__},
        "same_merges": same,
        "training": training,
        "encoding": compare_encoding(pairs, texts, repeats),
        "readable": compare_readable(pairs, texts, repeats),
    }


def in_turns(ways: dict[str, Callable[[], object]], repeats: int) -> dict[str, Any]:
    """Each way once untimed, then all of them in turns; the ratio is that of each turn, ours to the fastest of the others."""
    for way in ways.values():
        way()
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(repeats):
        for name in sorted(ways, reverse=turn % 2 == 1):  # nobody is always first
            begun = time.perf_counter()
            ways[name]()
            seconds[name].append(time.perf_counter() - begun)
    others = [min(turn) for turn in zip(*(times for name, times in seconds.items() if name != "ours"))]
    ratios = [ours / other for ours, other in zip(seconds["ours"], others)]
    return {"seconds": seconds, "ratio": {"median": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}}


def compare_encoding(pairs: BytePairs, texts: list[str], repeats: int) -> dict[str, Any]:
    """Ours to the faster of the library's two ways. Making the tokenizer is part of the time, for all alike."""
    document = BPETokenizer(pairs).document
    text = json.dumps(document)

    def ours() -> list[Any]:
        return BPETokenizer(pairs, document).encode_all(texts)

    def batch() -> list[list[int]]:
        return [one.ids for one in tokenizers.Tokenizer.from_str(text).encode_batch(texts, add_special_tokens=False)]

    def batch_fast() -> list[list[int]]:
        return [one.ids for one in tokenizers.Tokenizer.from_str(text).encode_batch_fast(texts, add_special_tokens=False)]

    assert ours() == batch() == batch_fast()
    return in_turns({"ours": ours, "tokenizers encode_batch": batch, "tokenizers encode_batch_fast": batch_fast}, repeats)


def compare_readable(pairs: BytePairs, texts: list[str], repeats: int, sample: int = 1000) -> dict[str, Any]:
    """Words of the running text, drawn by chance, each merged anew."""
    rng = random.Random(0)
    words = [word for line in rng.sample(texts, min(1000, len(texts))) for word in BYTE.words(line)]
    drawn = [pairs.spell(word) for word in rng.sample(words, min(sample, len(words)))]

    def merge() -> list[str]:
        return [pairs.merge(word) for word in drawn]

    def replay() -> list[str]:
        return [pairs.replay(word) for word in drawn]

    assert merge() == replay()
    return in_turns({"ours": merge, "replaying all merges": replay}, repeats)


def against_minbpe(file: Path, folder: Path, size: int, vocab: int) -> dict[str, Any]:
    """Seconds for the same beginning of the file. minbpe cuts words by its own rule, so its merges may differ."""
    package = types.ModuleType("minbpe")  # not its own __init__, which needs tiktoken
    package.__path__ = [str(folder / "minbpe")]
    sys.modules["minbpe"] = package
    try:
        minbpe = importlib.import_module("minbpe.regex")
    except ImportError as error:
        raise SystemExit(f"--minbpe {folder}: its module minbpe.regex cannot be imported ({error}).") from error
    text = "".join(_lines(file))[:size]
    begun = time.perf_counter()
    minbpe.RegexTokenizer().train(text, vocab)
    between = time.perf_counter()
    train(count_words([text], BYTE), BYTE, vocab=vocab)
    return {"bytes": size, "vocab": vocab, "minbpe": between - begun, "ours": time.perf_counter() - between}


def _lines(file: Path) -> Any:
    return (to_text(line, file, number) for number, line in lines(file))


def _library_trained(file: Path, vocab: int) -> tokenizers.Tokenizer:
    library = tokenizers.Tokenizer(tokenizers.models.BPE())
    library.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    library.train([str(file)], tokenizers.trainers.BpeTrainer(vocab_size=vocab, show_progress=False, initial_alphabet=alphabet))
    return library


def print_result(result: dict[str, Any]) -> None:
    where = result["file"]
    print(f"{where['name']}, {where['bytes']:,} bytes, vocabulary {result['vocab']}, {result['repeats']} repeats")
    print(", ".join(f"{key} {value}" for key, value in result["machine"].items()))
    print(f"the same merges: {'yes' if result['same_merges'] else 'NO'}")
    print(f"{'':10}  {'':30}  {'median s':>10}  {'ratio (lowest, highest)':>26}  promised")
    for name, gate in GATES.items():
        part = result[name]
        for way, seconds in part["seconds"].items():
            ratio = part["ratio"]
            shown = f"{ratio['median']:.4f} ({ratio['low']:.4f}, {ratio['high']:.4f})" if way == "ours" else ""
            promise = f"at most {gate:g}: {'kept' if ratio['median'] <= gate else 'BROKEN'}" if way == "ours" else ""
            print(f"{name:10}  {way:30}  {statistics.median(seconds):10.4f}  {shown:>26}  {promise}")
    if "minbpe" in result:
        part = result["minbpe"]
        print(f"minbpe on {part['bytes']:,} bytes to {part['vocab']} tokens: {part['minbpe']:.2f} s; ours {part['ours']:.3f} s")


if __name__ == "__main__":
    main()
