"""Machine code on disk is named by the sources that it was compiled from."""

from pathlib import Path

from simcore import compiled

ROOT = Path(compiled.__file__).parent


def test_every_compiled_function_lies_in_a_folder_that_names_the_cache():
    users = {
        path.relative_to(ROOT).parts[0]
        for path in ROOT.rglob("*.py")
        if "from simcore.compiled import" in path.read_text(encoding="utf-8")
    }
    assert users == set(compiled.COMPILED_PARTS)
