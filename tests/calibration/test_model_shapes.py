"""Shapes, weights and identities: what is covered, and what is refused with its reason."""

import json

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from safetensors.torch import load_file, save_file
from transformers import GemmaConfig, LlamaConfig, Qwen2Config

from calibration.errors import CalibrationError
from calibration.model.config import shape_of
from calibration.model.named_shapes import NAMED_SHAPES
from calibration.model.target import load_decoder, random_decoder
from calibration.models import load_model
from tests.calibration.paging import tiny_decoder

pytestmark = pytest.mark.torch

# As their publishers state them (model cards; Qwen3-0.6B and the like with the tied head once).
PUBLISHED_PARAMETERS = {
    "Llama-3.2-1B": 1_235_814_400,
    "Llama-3.2-3B": 3_212_749_824,
    "Llama-3.1-8B": 8_030_261_248,
    "Llama-3.3-70B": 70_553_706_496,
    "Qwen2.5-0.5B": 494_032_768,
    "Qwen2.5-7B": 7_615_616_512,
    "Qwen3-0.6B": 596_049_920,
    "Qwen3-1.7B": 1_720_574_976,
    "Qwen3-4B": 4_022_468_096,
    "Qwen3-8B": 8_190_735_360,
    "Qwen3-14B": 14_768_307_200,
    "Qwen3-32B": 32_762_123_264,
    "Mistral-7B-v0.3": 7_248_023_552,
    "SmolLM2-135M": 134_515_008,
}


def test_every_named_shape_has_its_published_number_of_parameters():
    found = {name: shape.num_parameters for name, shape in NAMED_SHAPES.items()}
    assert found == PUBLISHED_PARAMETERS


def test_kv_of_llama_8b_takes_128_kib_a_token_in_bfloat16():
    assert NAMED_SHAPES["Llama-3.1-8B"].kv_bytes_per_token(2) == 128 * 1024


def test_a_shape_counts_the_tensors_that_its_weights_hold():
    for changes in ({}, {"has_qkv_bias": True, "has_output_bias": True, "has_mlp_bias": True}):
        decoder = tiny_decoder(**changes)
        tensors = [decoder.weights.embedding, decoder.weights.norm, decoder.weights.head]
        for layer in decoder.weights.layers:
            for part in vars(layer).values():
                members = vars(part).values() if hasattr(part, "weight") else [part]
                tensors += [tensor for tensor in members if tensor is not None]
        assert sum(tensor.numel() for tensor in tensors) == decoder.shape.num_parameters


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (GemmaConfig(), "architecture 'gemma' is not covered"),
        (LlamaConfig(hidden_act="gelu"), "activation 'gelu' is not covered"),
        (
            LlamaConfig(rope_parameters={"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}),
            "rope scaling 'yarn' is not covered",
        ),
        (
            LlamaConfig(rope_parameters={"rope_theta": 1e4, "partial_rotary_factor": 0.5}),
            "partial rotation is not covered",
        ),
        (
            Qwen2Config(use_sliding_window=True, max_window_layers=3, num_hidden_layers=6),
            "layers of kinds full_attention, sliding_attention are mixed",
        ),
    ],
    ids=["family", "activation", "yarn", "partial", "mixed windows"],
)
def test_a_model_that_would_be_computed_wrongly_is_refused(config, reason):
    with pytest.raises(CalibrationError, match=reason):
        shape_of(config)


def test_the_loaded_identity_is_that_of_the_transformers_path(tiny_pair):
    own, other = (load(tiny_pair.target, "float64", "cpu") for load in (load_decoder, load_model))
    assert own.identity == other.identity
    assert own.eos_token_ids == other.eos_token_ids
    assert own.tokenizer.get_vocab() == other.tokenizer.get_vocab()


@pytest.fixture
def damaged(tiny_pair, tmp_path):
    """A copy of the target whose tensors can be changed."""

    def damage(change):
        for path in tiny_pair.target.iterdir():
            (tmp_path / path.name).write_bytes(path.read_bytes())
        tensors = load_file(tmp_path / "model.safetensors")
        change(tensors)
        save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
        return tmp_path

    return damage


def test_a_missing_tensor_is_named(damaged):
    folder = damaged(lambda tensors: tensors.pop("model.layers.1.mlp.up_proj.weight"))
    with pytest.raises(CalibrationError, match=r"lacks the tensor model.layers.1.mlp.up_proj"):
        load_decoder(folder, "float32", "cpu")


def test_a_tensor_of_another_size_than_the_config_says_is_refused(damaged):
    folder = damaged(lambda tensors: tensors.update({"model.norm.weight": torch.ones(7)}))
    with pytest.raises(CalibrationError, match=r"model.norm.weight .* is \(7,\)"):
        load_decoder(folder, "float32", "cpu")


def test_a_tensor_that_the_forward_would_leave_out_is_refused(damaged):
    folder = damaged(
        lambda tensors: tensors.update({"model.layers.0.self_attn.q_proj.lora_A": torch.ones(2)})
    )
    with pytest.raises(CalibrationError, match=r"such as model.layers.0.self_attn.q_proj.lora_A"):
        load_decoder(folder, "float32", "cpu")


def test_a_cut_file_is_refused(damaged):
    folder = damaged(lambda tensors: None)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CalibrationError, match="expected a whole safetensors file"):
        load_decoder(folder, "float32", "cpu")


def test_another_architecture_in_a_folder_is_refused(damaged):
    folder = damaged(lambda tensors: None)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "gpt2"}))
    with pytest.raises(CalibrationError, match="architecture 'gpt2' is not covered"):
        load_decoder(folder, "float32", "cpu")


def test_random_weights_repeat_with_their_seed_and_say_what_they_are():
    one, same, other = (
        random_decoder("SmolLM2-135M", "bfloat16", "cpu", seed=seed) for seed in (1, 1, 2)
    )
    assert torch.equal(one.decoder.weights.embedding, same.decoder.weights.embedding)
    assert not torch.equal(one.decoder.weights.embedding, other.decoder.weights.embedding)
    assert one.identity.name == "SmolLM2-135M (random weights)"
    assert one.identity.weight_bytes == 2 * 134_515_008
    assert one.tokenizer is None


def test_unknown_names_numbers_and_devices_are_refused():
    with pytest.raises(CalibrationError, match="no model shape is named 'Llama-9'"):
        random_decoder("Llama-9", "float32", "cpu")
    with pytest.raises(CalibrationError, match="dtype 'int4' is unknown"):
        random_decoder("SmolLM2-135M", "int4", "cpu")
    if not torch.cuda.is_available():
        with pytest.raises(CalibrationError, match="no CUDA device found"):
            random_decoder("SmolLM2-135M", "float32", "cuda")
