"""What the interpreter cannot see: the kernels of the writing step compile for GPUs, fit in their shared memory, and touch no
memory before they have waited for the kernel before. Compiling needs no GPU."""

from __future__ import annotations

import pytest

PROGRAM = """
import re, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from glassformer.generation.cuda.kernels import decode_attention, residual, sample

capability, shared = CAPABILITY
pdl = capability >= 90
TYPES = {name: "*i64" for name in ("position_ptr", "ids_ptr", "index_ptr", "last_ptr", "first_ptr", "output_tokens_ptr")}
TYPES |= {name: "*fp32" for name in ("weight_sums_ptr", "sums_ptr", "scores_ptr")}
TYPES |= {name: "fp32" for name in ("eps", "scale", "temperature")}

def compiled(kernel, constants, types={}, **options):
    constants = constants | {"PDL": pdl}
    kinds = TYPES | types
    signature = {
        name: "constexpr" if name in constants else kinds.get(name, "*bf16" if name.endswith("_ptr") else "i32")
        for name in kernel.arg_names
    }
    aligned = {(at,): [["tt.divisibility", 16]] for at, name in enumerate(kernel.arg_names) if name.endswith("_ptr")}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    result = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options | {"launch_pdl": pdl})
    assert result.metadata.shared <= shared, (constants, result.metadata.shared)
    lines = result.asm["ptx"].split(chr(10))
    waits = [at for at, line in enumerate(lines) if "griddepcontrol.wait" in line]
    touched = [at for at, line in enumerate(lines) if re.search(r"ld\\.global|st\\.global|cp\\.async", line)]
    assert touched
    assert not pdl or waits[0] < touched[0], constants

for width in (16, 64, decode_attention.WIDEST_HEAD):
    for block, warps in ((16, 1), (128, 4)):
        sizes = {"WIDTH": width, "BLOCK": block}
        compiled(decode_attention._attend, sizes, {"keys_ptr": "*bf16"}, num_warps=warps, num_stages=1)
for rows, outputs in ((1, 384), (256, 65), (256, 384)):
    for adding in (False, True):
        row_block, columns, depth, warps, stages = residual.tiles(rows, outputs, adding=adding)
        flags = {"NORMED": not adding, "CENTRED": not adding, "BIASED": True, "ACTIVATION": 0 if adding else 2, "ADDED": adding}
        sizes = {"ROWS": row_block, "COLUMNS": columns, "DEPTH": depth, "PIECE": 16, "PIECES": 32}
        types = {"bias_ptr": "*bf16" if adding else "*fp32"}
        compiled(residual._linear, flags | sizes, types, num_warps=warps, num_stages=stages)
compiled(residual._embed, {"HAS_POSITIONS": True, "PIECE": 16, "PIECES": 32}, num_warps=4)
for vocabulary in (1, 1024):
    sizes = {"SAMPLED": True, "BLOCK": vocabulary, "HAS_POSITIONS": True, "PIECE": 16, "PIECES": 32}
    compiled(sample._sample, sizes, {"seeds_ptr": "*i64"}, num_warps=4)
"""
CAPABILITIES = {"Ampere": (80, 166_912), "Ada": (89, 101_376), "Hopper": (90, 232_448)}
"""Compute capability, and the bytes of shared memory one program may have (CUDA C++ Programming Guide)."""


@pytest.mark.parametrize("generation", CAPABILITIES)
def test_compiles_fits_and_waits(run_with_kernels, generation) -> None:
    assert run_with_kernels(PROGRAM.replace("CAPABILITY", repr(CAPABILITIES[generation])), interpreted=False) == ""
