"""Headings and rows of benchmark documents."""

from __future__ import annotations

from glassformer.benchmark.table import heading, rows_of, shown

FIGURE = {"value": 2.0, "low": 1.0, "high": 3.0, "n": 3}
SIZES = {"width": 384, "layers": 6, "heads": 5, "context": 256, "vocabulary": 65, "dropout": 0.0}
MACHINE = {"date": "2026-11-15", "device": "a machine", "threads": 2, "precision": "float32", "torch": "2.13.0"}
GENERATE = {
    "benchmark": "generate",
    "machine": {**MACHINE, "matrix_flops": {"value": 2e11}, "memory_bytes": {"value": 1.5e10}},
    "settings": {**SIZES, "rows": 7, "prompt": 8, "new": 9},
    "tokens_per_second": {"ours": FIGURE, "theirs": FIGURE},
    "times_as_fast_as": {"theirs": {"value": 12.345, "low": 0.012345, "high": 123456.7, "n": 3}},
}
TRAIN = {
    **GENERATE,
    "benchmark": "train",
    "machine": {**MACHINE, "matrix_flops": {"value": 2e11}},
    "settings": {**SIZES, "batch": 4, "steps": 5},
    "share_of_matrix_rate": {"ours": FIGURE, "theirs": FIGURE},
}


def test_figures_are_shown_with_three_digits():
    assert shown({"value": 12.345, "low": 0.012345, "high": 123456.7}) == "12.3 (0.0123 to 123,457)"


def test_the_table_of_generation():
    assert heading(GENERATE) == (
        "2026-11-15, a machine, 2 threads, float32, torch 2.13.0 (matrix products 200 GFLOP/s, memory 15 GB/s): "
        "6 layers, 5 heads, width 384, context 256; writing 9 tokens after prompts of 8, 7 at once."
    )
    assert rows_of(GENERATE) == (
        ["program", "tokens/s", "we are times as fast"],
        [["ours", "2 (1 to 3)", ""], ["theirs", "2 (1 to 3)", "12.3 (0.0123 to 123,457)"]],
    )


def test_the_table_of_training_has_shares():
    assert "training steps of 4 x 256 tokens, dropout 0.0." in heading(TRAIN)
    assert rows_of(TRAIN)[1][0] == ["ours", "2 (1 to 3)", "", "2 (1 to 3)"]
    assert rows_of({**TRAIN, "peak_bytes": {"ours": 3 << 29}})[1][0][-1] == "1.50 GiB"


def test_the_table_of_attention():
    grown = {"exponent": 1.876, "error": 0.012, "n": 3}
    mixer = {"mixer": "dot", "seconds": [0.1, 0.25], "bytes": [1 << 20, 3 << 19], "flops": [1, 2], "formula": grown}
    attention = {
        "benchmark": "attention",
        "machine": MACHINE,
        "settings": {"width": 12, "heads": 3, "repeats": 5, "lengths": [512, 1024]},
        "mixers": [
            {**mixer, "time": grown, "memory": {**grown, "error": None}},
            {**mixer, "flops": [0, 0], "time": grown, "memory": grown},
        ],
    }
    assert heading(attention) == (
        "2026-11-15, a machine, 2 threads, float32, torch 2.13.0: width 12, 3 heads; one forward and backward pass of a mixer "
        "alone, one row, the best of 5 passes."
    )
    assert rows_of(attention) == (
        ["mixer", "time at 1,024", "memory at 1,024", "time grows as n^", "memory n^", "formula n^"],
        [
            ["dot", "250.00 ms", "1.5 MiB", "1.88 ± 0.01", "1.88", "1.88 ± 0.01"],
            ["dot", "250.00 ms", "1.5 MiB", "1.88 ± 0.01", "1.88 ± 0.01", "-"],
        ],
    )
