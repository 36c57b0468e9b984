"""Published models by name, for cost-only runs with random weights.

Sizes are those of each model's config.json on its publisher's page (meta-llama/Llama-3.1-8B,
meta-llama/Llama-3.3-70B-Instruct, Qwen/Qwen3-8B and so on); a test holds the sum of parameters
that they imply against the number the publisher states.
"""

from calibration.errors import CalibrationError
from calibration.model.shape import ModelShape, RopeScaling


def _llama3(
    hidden: int, inner: int, layers: int, heads: int, *, factor: float = 8.0, is_tied: bool = False
) -> ModelShape:
    return ModelShape(
        family="llama",
        vocab_size=128_256,
        hidden_size=hidden,
        intermediate_size=inner,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=8,
        head_dim=hidden // heads,
        norm_epsilon=1e-5,
        rope_theta=500_000.0,
        rope_scaling=RopeScaling(
            factor=factor, low_freq_factor=1.0, high_freq_factor=4.0, original_max_tokens=8192
        ),
        max_context_tokens=131_072,
        is_tied=is_tied,
    )


def _qwen3(
    hidden: int, inner: int, layers: int, heads: int, *, is_tied: bool = False
) -> ModelShape:
    return ModelShape(
        family="qwen3",
        vocab_size=151_936,
        hidden_size=hidden,
        intermediate_size=inner,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=8,
        head_dim=128,
        norm_epsilon=1e-6,
        rope_theta=1_000_000.0,
        max_context_tokens=40_960,
        is_tied=is_tied,
        has_qk_norm=True,
    )


def _qwen25(
    vocab: int, hidden: int, inner: int, layers: int, heads: int, kv_heads: int, *, is_tied: bool
) -> ModelShape:
    return ModelShape(
        family="qwen2",
        vocab_size=vocab,
        hidden_size=hidden,
        intermediate_size=inner,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=hidden // heads,
        norm_epsilon=1e-6,
        rope_theta=1_000_000.0,
        max_context_tokens=32_768,
        is_tied=is_tied,
        has_qkv_bias=True,
    )


NAMED_SHAPES = {
    "Llama-3.2-1B": _llama3(2048, 8192, 16, 32, factor=32.0, is_tied=True),
    "Llama-3.2-3B": _llama3(3072, 8192, 28, 24, factor=32.0, is_tied=True),
    "Llama-3.1-8B": _llama3(4096, 14_336, 32, 32),
    "Llama-3.3-70B": _llama3(8192, 28_672, 80, 64),
    "Qwen2.5-0.5B": _qwen25(151_936, 896, 4864, 24, 14, 2, is_tied=True),
    "Qwen2.5-7B": _qwen25(152_064, 3584, 18_944, 28, 28, 4, is_tied=False),
    "Qwen3-0.6B": _qwen3(1024, 3072, 28, 16, is_tied=True),
    "Qwen3-1.7B": _qwen3(2048, 6144, 28, 16, is_tied=True),
    "Qwen3-4B": _qwen3(2560, 9728, 36, 32, is_tied=True),
    "Qwen3-8B": _qwen3(4096, 12_288, 36, 32),
    "Qwen3-14B": _qwen3(5120, 17_408, 40, 40),
    "Qwen3-32B": _qwen3(5120, 25_600, 64, 64),
    "Mistral-7B-v0.3": ModelShape(
        family="mistral",
        vocab_size=32_768,
        hidden_size=4096,
        intermediate_size=14_336,
        num_layers=32,
        num_heads=32,
        num_kv_heads=8,
        head_dim=128,
        norm_epsilon=1e-5,
        rope_theta=1_000_000.0,
        max_context_tokens=32_768,
    ),
    "SmolLM2-135M": ModelShape(
        family="llama",
        vocab_size=49_152,
        hidden_size=576,
        intermediate_size=1536,
        num_layers=30,
        num_heads=9,
        num_kv_heads=3,
        head_dim=64,
        norm_epsilon=1e-5,
        rope_theta=100_000.0,
        max_context_tokens=8192,
        is_tied=True,
    ),
}


def named_shape(name: str) -> ModelShape:
    """The shape published under `name`; raises CalibrationError where there is none."""
    if name not in NAMED_SHAPES:
        raise CalibrationError(
            f"no model shape is named '{name}'; expected one of {', '.join(NAMED_SHAPES)}"
        )
    return NAMED_SHAPES[name]
