"""The shape of a Hugging Face folder, and why a model is refused."""

from pathlib import Path
from typing import Any

from transformers import AutoConfig

from calibration.errors import CalibrationError
from calibration.model.shape import ModelShape, RopeScaling

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
QKV_BIAS_ALWAYS = ("qwen2",)
BIAS_BY_CONFIG = ("llama", "qwen3")


def read_shape(folder: Path) -> ModelShape:
    """The shape that `folder`/config.json states; raises CalibrationError where it is refused."""
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
    except (ValueError, OSError, KeyError) as error:
        raise CalibrationError(
            f"cannot read the config of '{folder.name}' ({str(error).splitlines()[0]}); expected "
            "the config.json of a causal language model"
        ) from error
    return shape_of(config)


def shape_of(config: Any) -> ModelShape:
    """The shape of a transformers config; refuses what the forward would compute differently."""
    family = str(config.model_type)
    if family not in FAMILIES:
        raise CalibrationError(
            f"architecture '{family}' is not covered; expected one of {', '.join(FAMILIES)}"
        )
    if config.hidden_act != "silu":
        raise CalibrationError(f"activation '{config.hidden_act}' is not covered; expected silu")
    has_bias = family in BIAS_BY_CONFIG and bool(getattr(config, "attention_bias", False))
    rope = config.rope_parameters
    return ModelShape(
        family=family,
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        num_kv_heads=config.num_key_value_heads or config.num_attention_heads,
        head_dim=getattr(config, "head_dim", None)
        or config.hidden_size // config.num_attention_heads,
        norm_epsilon=config.rms_norm_eps,
        rope_theta=rope["rope_theta"],
        rope_scaling=_scaling(rope),
        max_context_tokens=config.max_position_embeddings,
        is_tied=config.tie_word_embeddings,
        has_qkv_bias=has_bias or family in QKV_BIAS_ALWAYS,
        has_output_bias=has_bias,
        has_mlp_bias=family == "llama" and bool(getattr(config, "mlp_bias", False)),
        has_qk_norm=family == "qwen3",
        sliding_window_tokens=_window(config),
    )


def _scaling(rope: dict[str, Any]) -> RopeScaling | None:
    kind = rope.get("rope_type", "default")
    if rope.get("partial_rotary_factor", 1.0) != 1.0:
        raise CalibrationError(
            f"partial_rotary_factor is {rope['partial_rotary_factor']}; expected whole heads to "
            "rotate: partial rotation is not covered"
        )
    if kind == "default":
        return None
    if kind != "llama3":
        raise CalibrationError(
            f"rope scaling '{kind}' is not covered; expected none or llama3, whose frequencies "
            "do not change with the length of the text"
        )
    return RopeScaling(
        factor=rope["factor"],
        low_freq_factor=rope["low_freq_factor"],
        high_freq_factor=rope["high_freq_factor"],
        original_max_tokens=rope["original_max_position_embeddings"],
    )


def _window(config: Any) -> int | None:
    """The window that all layers share; None where every layer sees the whole text."""
    window = getattr(config, "sliding_window", None)
    kinds = set(getattr(config, "layer_types", None) or ())
    if window is None or kinds == {"full_attention"}:
        return None
    if len(kinds) > 1:
        raise CalibrationError(
            f"layers of kinds {', '.join(sorted(kinds))} are mixed; expected one attention window "
            "for all layers, or none"
        )
    return int(window)
