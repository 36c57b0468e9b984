"""The sizes and switches of a decoder-only model of the Llama family."""

from typing import Self

from pydantic import Field, model_validator

from simcore.profile.schema import Frozen


class RopeScaling(Frozen):
    """Llama 3's stretching of low rotary frequencies (Llama 3 herd, 2407.21783)."""

    factor: float = Field(gt=0.0)
    low_freq_factor: float = Field(gt=0.0)
    high_freq_factor: float = Field(gt=0.0)
    original_max_tokens: int = Field(gt=0)


class ModelShape(Frozen):
    """What a forward pass needs to know; Llama, Qwen2, Qwen3 and Mistral differ in it only."""

    family: str
    vocab_size: int = Field(gt=0)
    hidden_size: int = Field(gt=0)
    intermediate_size: int = Field(gt=0)
    num_layers: int = Field(gt=0)
    num_heads: int = Field(gt=0)
    num_kv_heads: int = Field(gt=0)
    head_dim: int = Field(gt=0, multiple_of=2)
    norm_epsilon: float = Field(gt=0.0)
    rope_theta: float = Field(gt=0.0)
    rope_scaling: RopeScaling | None = None
    max_context_tokens: int = Field(gt=0)
    is_tied: bool = Field(False, description="the head is the embedding")
    has_qkv_bias: bool = False
    has_output_bias: bool = False
    has_mlp_bias: bool = False
    has_qk_norm: bool = False
    sliding_window_tokens: int | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"{self.num_heads} heads over {self.num_kv_heads} KV heads; expected a multiple"
            )
        return self

    @property
    def num_queries_per_kv_head(self) -> int:
        """Query heads that share one KV head."""
        return self.num_heads // self.num_kv_heads

    @property
    def num_parameters(self) -> int:
        """Weights, a tied head counted once."""
        query, kv = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        hidden, inner = self.hidden_size, self.intermediate_size
        layer = 2 * hidden + hidden * (query + 2 * kv) + query * hidden + 3 * hidden * inner
        layer += self.has_qkv_bias * (query + 2 * kv) + self.has_output_bias * hidden
        layer += self.has_mlp_bias * (2 * inner + hidden) + self.has_qk_norm * 2 * self.head_dim
        embeddings = (1 if self.is_tied else 2) * self.vocab_size * hidden
        return embeddings + self.num_layers * layer + hidden

    def kv_bytes_per_token(self, element_bytes: int) -> int:
        """Keys and values of all layers for one token."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * element_bytes
