"""The machine, the versions and the command behind a measurement."""

import os
import platform
import shlex
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from calibration.errors import CalibrationError
from simcore.profile.schema import Engine, Hardware
from simcore.version import specplan_version

PACKAGES = ("specplan", "torch", "transformers", "tokenizers", "gguf", "numpy", "pandas")


def hardware(device: str) -> Hardware:
    """The device that the models run on."""
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        return Hardware(device="cuda", name=properties.name, memory_bytes=properties.total_memory)
    return Hardware(
        device="cpu",
        name=cpu_name(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        threads=torch.get_num_threads(),
    )


def engine() -> Engine:
    """The package's own forward over paged KV inside its serving loop."""
    return Engine(
        name="specplan",
        version=specplan_version(),
        settings={
            "attention": "sdpa over paged KV, ragged batches",
            "loop": "calibration/serve under simcore's scheduler, eager",
            "torch": version("torch"),
        },
    )


def versions() -> dict[str, str]:
    """Python and the packages that the figures depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue  # run from a checkout, or a part that was not needed
    return found


def command_line(arguments: list[str], module: str = "calibration") -> str:
    """The command without folders: a profile does not tell where its machine keeps files."""
    shown = [Path(word).name if os.sep in word else word for word in arguments]
    return shlex.join(["python", "-m", module, *shown])


def cpu_name() -> str:
    """The processor's name, as the system gives it."""
    for line in _cpuinfo():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def use_threads(count: int | None) -> None:
    """Let torch compute with so many threads, by default one a physical core.

    Raises CalibrationError for fewer than one.
    """
    if count is not None and count < 1:
        raise CalibrationError(f"threads is {count}; expected at least 1")
    torch.set_num_threads(count or physical_cores())


def physical_cores() -> int:
    """Cores, not hardware threads, that this process may use; at least 1."""
    usable = _usable_cpus()
    cores, entry = set(), {}
    for line in [*_cpuinfo(), ""]:
        if line.strip():
            key, _, value = line.partition(":")
            entry[key.strip()] = value.strip()
        elif entry:
            if int(entry.get("processor", -1)) in usable and "core id" in entry:
                cores.add((entry.get("physical id", "0"), entry["core id"]))
            entry = {}
    return len(cores) or len(usable)


def _usable_cpus() -> set[int]:
    if sys.platform == "linux":
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
