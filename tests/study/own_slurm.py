"""A SLURM of this machine alone, for tests: munged, slurmctld and two slurmd of one core each, in a folder of their own.

Needs the programs only (Debian: ``slurmctld slurmd slurm-client munge``), no accounting and no cgroups.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

NODES = ("one", "two")
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={ports[0]}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdSpoolDir={folder}/spool-%n
StateSaveLocation={folder}/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=10
KillWait=5
MpiDefault=none
NodeName=one NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 RealMemory=4000
NodeName=two NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 RealMemory=4000
PartitionName=all Nodes=one,two Default=YES MaxTime=60 State=UP
"""


def missing() -> str:
    """The first program that is not installed; empty where all are."""
    return next((name for name in ("munged", "slurmctld", "slurmd", "sbatch") if shutil.which(name) is None), "")


class OwnSlurm:
    """``environment``: by which its commands find it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.environment = folder, {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        for name in ("state", *(f"spool-{node}" for node in NODES)):
            (folder / name).mkdir(parents=True)
        key = folder / "key"
        key.write_bytes(os.urandom(256))
        key.chmod(0o600)
        names = {"host": socket.gethostname().split(".")[0], "user": _user(), "ports": _free_ports(3), "folder": folder}
        (folder / "slurm.conf").write_text(CONFIGURATION.format(**names))
        files = {"key": "key", "pid": "munge.pid", "log": "munge.log", "seed": "munge.seed"}
        own = [f"--{name}-file={folder / file}" for name, file in files.items()]
        self.processes = {"munged": self._start("munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *own)}
        self.wait(lambda: (folder / "munge.socket").exists())
        self.processes["slurmctld"] = self._start("slurmctld", "-D", "-c")
        for node in NODES:
            self.processes[node] = self._start("slurmd", "-D", "-N", node)
        self.wait(lambda: self.ask("sinfo", "-h", "-N", "-o", "%T").split() == ["idle", "idle"])

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{command[0]}.log").open("ab") as log:
            return subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)

    def wait(self, ready: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not ready():
            assert time.monotonic() < end, "".join(log.read_text()[-1000:] for log in self.folder.glob("*.log"))
            time.sleep(0.2)

    def ask(self, *command: str) -> str:
        """What a command of SLURM prints."""
        return subprocess.run(command, env=self.environment, check=False, capture_output=True, text=True).stdout

    def jobs(self, state: str = "") -> list[str]:
        """Ids of the jobs that are there, or of those in a state."""
        return self.ask("squeue", "-h", "-r", "-o", "%i", *(["-t", state] if state else [])).split()

    def close(self) -> None:
        if self.jobs():
            self.ask("scancel", "--user", _user())
            time.sleep(6)
        for process in reversed(self.processes.values()):
            process.kill()
            process.wait()


def _user() -> str:
    import pwd

    return pwd.getpwuid(os.getuid()).pw_name


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
