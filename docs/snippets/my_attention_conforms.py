# docs/snippets/my_attention_conforms.py
from pathlib import Path

from glassformer.checks.conformance import cases, conform
from glassformer.foundation.plugins import load_plugins

load_plugins([Path(__file__).with_name("my_attention.py")])
for case in cases("model.mixer", "window"):
    case.run()
    print("held:", case)
print("failed:", conform("model.mixer", "window"))
