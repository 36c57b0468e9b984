"""Machine code on disk is named by the sources that it was compiled from."""

from pathlib import Path

import numpy as np
import pytest

from simcore import compiled
from simcore.acceptance.counter_random import uniform

ROOT = Path(compiled.__file__).parent


def test_every_compiled_function_lies_in_a_folder_that_names_the_cache():
    users = {
        path.relative_to(ROOT).parts[0]
        for path in ROOT.rglob("*.py")
        if "from simcore.compiled import" in path.read_text(encoding="utf-8")
    }
    assert users == set(compiled.COMPILED_PARTS)


def test_the_cache_is_named_by_everything_that_shapes_machine_code(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "compiled.py"))
    monkeypatch.setattr(compiled, "cache_folder", lambda: tmp_path / "cache")
    before = compiled.numba.config.CACHE_DIR
    folders = set()
    try:
        for changed in ("none", *compiled.COMPILED_HELPERS):
            for name in compiled.COMPILED_HELPERS:
                (tmp_path / name).write_text(f"# {name} {name == changed}")
            compiled._choose_cache()
            folders.add(compiled.numba.config.CACHE_DIR)
    finally:
        compiled.numba.config.CACHE_DIR = before
    assert len(folders) == 1 + len(compiled.COMPILED_HELPERS)


def test_python_cannot_call_what_is_compiled_into_its_callers_only():
    with pytest.raises(TypeError, match="compiled_entry"):
        uniform(np.uint64(1), np.uint64(1), 0, 0)
