"""Weights of a decoder as plain tensors; q, k, v lie in one matrix, gate and up in another."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from calibration.model.shape import ModelShape

Source = Callable[[str, tuple[int, ...]], torch.Tensor]  # (name in a Hugging Face folder, size)


@dataclass(frozen=True)
class Linear:
    """A matrix [out, in] and its bias [out], if any."""

    weight: torch.Tensor
    bias: torch.Tensor | None = None


@dataclass(frozen=True)
class LayerWeights:
    """One decoder layer."""

    attention_norm: torch.Tensor  # [E]
    qkv: Linear  # [(H + 2 K) D, E]
    query_norm: torch.Tensor | None  # [D]
    key_norm: torch.Tensor | None  # [D]
    output: Linear  # [E, H D]
    mlp_norm: torch.Tensor  # [E]
    gate_up: Linear  # [2 I, E]
    down: Linear  # [E, I]


@dataclass(frozen=True)
class ModelWeights:
    """A whole decoder; a tied head is the embedding itself."""

    embedding: torch.Tensor  # [V, E]
    layers: tuple[LayerWeights, ...]
    norm: torch.Tensor  # [E]
    head: torch.Tensor  # [V, E]


def collect_weights(shape: ModelShape, source: Source) -> ModelWeights:
    """Ask `source` for every tensor of `shape`, once each."""
    hidden = shape.hidden_size
    embedding = source("model.embed_tokens.weight", (shape.vocab_size, hidden))
    return ModelWeights(
        embedding=embedding,
        layers=tuple(_layer(shape, source, f"model.layers.{n}") for n in range(shape.num_layers)),
        norm=source("model.norm.weight", (hidden,)),
        head=embedding if shape.is_tied else source("lm_head.weight", (shape.vocab_size, hidden)),
    )


def _layer(shape: ModelShape, source: Source, prefix: str) -> LayerWeights:
    hidden, inner, head_dim = shape.hidden_size, shape.intermediate_size, shape.head_dim
    query, kv = shape.num_heads * head_dim, shape.num_kv_heads * head_dim
    attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
    qkv = {"q_proj": query, "k_proj": kv, "v_proj": kv}

    def linear(where: str, rows: dict[str, int], columns: int, has_bias: bool) -> Linear:
        weights = [source(f"{where}.{name}.weight", (size, columns)) for name, size in rows.items()]
        if not has_bias:
            return Linear(_joined(weights))
        biases = [source(f"{where}.{name}.bias", (size,)) for name, size in rows.items()]
        return Linear(_joined(weights), _joined(biases))

    def head_norm(name: str) -> torch.Tensor | None:
        return source(f"{attention}.{name}.weight", (head_dim,)) if shape.has_qk_norm else None

    return LayerWeights(
        attention_norm=source(f"{prefix}.input_layernorm.weight", (hidden,)),
        qkv=linear(attention, qkv, hidden, shape.has_qkv_bias),
        query_norm=head_norm("q_norm"),
        key_norm=head_norm("k_norm"),
        output=linear(attention, {"o_proj": hidden}, query, shape.has_output_bias),
        mlp_norm=source(f"{prefix}.post_attention_layernorm.weight", (hidden,)),
        gate_up=linear(mlp, {"gate_proj": inner, "up_proj": inner}, hidden, shape.has_mlp_bias),
        down=linear(mlp, {"down_proj": hidden}, inner, shape.has_mlp_bias),
    )


def _joined(parts: list[torch.Tensor]) -> torch.Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
