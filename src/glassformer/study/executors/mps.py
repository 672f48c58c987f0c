"""Several processes on one GPU at the same time: NVIDIA's Multi-Process Service for the workers of a study. Imports no torch.

Without it the processes take turns on the GPU; with it their kernels run side by side (shakespeare-char, four processes on one
H200: 4.54 ms a step instead of 5.47). The service is this study's own: it lives in a temporary folder and ends with it.
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


@final
class SharedGPU:
    """The service, where there is one; otherwise nothing, and the processes take turns."""

    def __init__(self) -> None:
        self.environment: dict[str, str] = {}
        """Variables by which a process finds the service."""
        self._folder: Path | None = None

    def start(self) -> None:
        """Once. Left alone: a service that the user has started, and machines that have none or refuse it."""
        if self._folder is not None or "CUDA_MPS_PIPE_DIRECTORY" in os.environ or shutil.which(CONTROL) is None:
            return
        self._folder = Path(tempfile.mkdtemp(prefix="glassformer-mps-"))
        variables = {"CUDA_MPS_PIPE_DIRECTORY": str(self._folder), "CUDA_MPS_LOG_DIRECTORY": str(self._folder)}
        if self._control(["-d"], variables):
            self.environment = variables

    def close(self) -> None:
        if self.environment:
            self._control([], self.environment, say="quit\n")
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self.environment, self._folder = {}, None

    def _control(self, words: list[str], variables: dict[str, str], say: str | None = None) -> bool:
        with suppress(OSError, subprocess.TimeoutExpired):
            answer = subprocess.run(
                [CONTROL, *words],
                env={**os.environ, **variables},
                input=say,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
                timeout=WAIT,
                check=False,
            )
            return answer.returncode == 0
        return False
