# docs/snippets/check_function.py
import torch

import glassformer as gf

table = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))


def honest(ids):
    return table[ids].cumsum(dim=1)


def leaky(ids):
    return honest(ids) + 1e-6 * table[ids].mean(dim=1, keepdim=True)


for function in (honest, leaky):
    report = gf.check(function, vocabulary=50, context=64)
    print(function.__name__, report.passed)
finding = report.findings[0]
print(f"{finding.law}: {finding.from_position} -> {finding.to_position}, {len(finding.example['tokens'])} tokens suffice")
