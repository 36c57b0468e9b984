"""The tiny pair, trained once a session on one thread, and small helpers around it."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from calibration.model.target import LoadedModel
    from calibration.models import LanguageModel
    from calibration.tiny import TinyPair

QUESTIONS = (
    "Who sold the red lamp at the tower?",
    "List what Ada saw at the market.",
    "Who painted the blue boat at the harbour?",
    "List what Chen saw at the library.",
)


@pytest.fixture(scope="session", autouse=True)
def _one_torch_thread() -> None:
    torch = pytest.importorskip(
        "torch", reason="torch is not installed: pip install .[calibration]"
    )
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_pair(tmp_path_factory: pytest.TempPathFactory) -> "TinyPair":
    from calibration.tiny import write_tiny_pair

    return write_tiny_pair(tmp_path_factory.mktemp("tiny-pair"))


@pytest.fixture(scope="session")
def shallow_smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of SmolLM2's first 24 of 30 layers with its own norm and head: a draft often right."""
    import copy

    from transformers import AutoModelForCausalLM

    from calibration.models import load_model

    whole = load_model(None, "float32", "cpu")
    config = copy.deepcopy(whole.model.config)
    config.num_hidden_layers = 24
    draft = AutoModelForCausalLM.from_config(config)
    draft.load_state_dict(whole.model.state_dict(), strict=False)
    folder = tmp_path_factory.mktemp("shallow-smollm2")
    draft.save_pretrained(folder)
    whole.tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def target(tiny_pair: "TinyPair") -> "LanguageModel":
    from calibration.models import load_model

    return load_model(tiny_pair.target, "float64", "cpu")


@pytest.fixture(scope="session")
def draft(tiny_pair: "TinyPair") -> "LanguageModel":
    from calibration.models import load_model

    return load_model(tiny_pair.draft, "float64", "cpu")


@pytest.fixture(scope="session")
def loaded_pair(tiny_pair: "TinyPair") -> "tuple[LoadedModel, LoadedModel]":
    """Target and draft in the package's own forward."""
    from calibration.model.target import load_decoder

    target, draft = (
        load_decoder(path, "float64", "cpu") for path in (tiny_pair.target, tiny_pair.draft)
    )
    return target, draft


@pytest.fixture(scope="session")
def prompt_ids(target: "LanguageModel") -> list[list[int]]:
    from calibration.promptset import Prompt, prompt_token_ids

    return [prompt_token_ids(Prompt("test", text), target.tokenizer) for text in QUESTIONS]


@pytest.fixture(scope="session")
def prompts_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import json

    path = tmp_path_factory.mktemp("prompts") / "prompts.jsonl"
    rows = [{"domain": text.split()[0].lower(), "prompt": text} for text in QUESTIONS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
