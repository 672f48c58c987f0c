"""Several processes on one GPU at the same time: NVIDIA's Multi-Process Service for the workers of a study. Imports no torch.

Without it the processes take turns on the GPU; with it their kernels run side by side (shakespeare-char on one H200: four
processes 4.54 ms for a step of one, three without the service 5.47, one alone 5.03). The service is this study's own: it lives
in a temporary folder, and a guardian process ends it with the study, however that ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import final

CONTROL = "nvidia-cuda-mps-control"
WAIT = 20.0
"""Seconds the service has to start, and to end."""
USUAL_PLACE = Path("/tmp/nvidia-mps")
"""Where a service is that somebody started without saying where: every process finds it by itself."""
GUARD = """
nvidia-cuda-mps-control -d || { echo no; exit 1; }
echo yes
cat > /dev/null  # until the study is over, or dead
echo quit | nvidia-cuda-mps-control
rm -rf "$CUDA_MPS_PIPE_DIRECTORY"
"""


@final
class SharedGPU:
    """The service, where there is one; otherwise nothing, and the processes take turns."""

    def __init__(self) -> None:
        self.environment: dict[str, str] = {}
        """Variables by which a process finds the service."""
        self._guardian: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Once. Left alone: a service that is there already, and machines that have none or refuse it."""
        there = "CUDA_MPS_PIPE_DIRECTORY" in os.environ or (USUAL_PLACE / "control").exists()
        if self._guardian is not None or there or shutil.which(CONTROL) is None:
            return
        folder = tempfile.mkdtemp(prefix="glassformer-mps-")
        variables = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        # It numbers GPUs as its workers do only if it sees all of them.
        inherited = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        self._guardian = subprocess.Popen(
            ["sh", "-c", GUARD],
            env={**inherited, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C is for the driver
        )
        assert self._guardian.stdout is not None
        if self._guardian.stdout.readline().strip() == "yes":
            self.environment = variables
        else:
            shutil.rmtree(folder, ignore_errors=True)

    def give_up(self) -> None:
        """A fault of one process ends the work of all that share the service: who starts from now on does without."""
        self.environment = {}

    def close(self) -> None:
        if self._guardian is None:
            return
        for stream in (self._guardian.stdin, self._guardian.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        with suppress(subprocess.TimeoutExpired):
            self._guardian.wait(WAIT)
        self.environment, self._guardian = {}, None
