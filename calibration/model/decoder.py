"""The forward pass of a decoder-only model over a ragged batch and paged KV."""

import torch
from torch.nn.functional import embedding, linear, silu

from calibration.model.attention import additive_mask, grouped_attention
from calibration.model.rope import Rope, inverse_frequencies, rotate
from calibration.model.shape import ModelShape
from calibration.model.weights import LayerWeights, Linear, ModelWeights
from calibration.paged.kv import PagedKV
from calibration.paged.plan import StepPlan


class Decoder:
    """Weights on one device; each forward reads and writes KV that the caller owns."""

    def __init__(self, shape: ModelShape, weights: ModelWeights) -> None:
        self.shape = shape
        self.weights = weights
        self._rope = Rope(inverse_frequencies(shape).to(self.device), self.dtype)

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.weights.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """Numbers that the weights are, and everything is computed in but norms and angles."""
        return self.weights.embedding.dtype

    @torch.inference_mode()
    def forward(self, plan: StepPlan, kv: PagedKV, num_layers: int | None = None) -> torch.Tensor:
        """Logits [K, V] of the plan's scored tokens; writes the KV of all its T tokens.

        `num_layers`: only the first ones, then norm and head, as a layer-skip proposer does.
        """
        shape = self.shape
        states = embedding(plan.token_ids, self.weights.embedding)  # [T, E]
        angles = self._rope(plan.positions)
        masks = [
            additive_mask(group, kv.block_size, shape.sliding_window_tokens, self.dtype).repeat(
                1, 1, shape.num_queries_per_kv_head, 1
            )
            for group in plan.groups
        ]
        for index, layer in enumerate(self.weights.layers[:num_layers]):
            states = states + self._attend(index, layer, states, angles, masks, plan, kv)
            states = states + self._mlp(layer, states)
        # Picked rows are packed; bfloat16 products on the CPU are ten times slower on strided ones.
        states = self._norm(states.index_select(0, plan.scored), self.weights.norm)  # [K, E]
        return linear(states, self.weights.head)

    def _attend(
        self,
        index: int,
        layer: LayerWeights,
        states: torch.Tensor,
        angles: tuple[torch.Tensor, torch.Tensor],
        masks: list[torch.Tensor],
        plan: StepPlan,
        kv: PagedKV,
    ) -> torch.Tensor:
        """[T, E] what attention adds to `states` [T, E]."""
        shape = self.shape
        heads = _apply(layer.qkv, self._norm(states, layer.attention_norm))
        heads = heads.view(len(states), -1, shape.head_dim)  # [T, H + 2 K, D]
        sizes = [shape.num_heads, shape.num_kv_heads, shape.num_kv_heads]
        queries, keys, values = torch.split(heads, sizes, dim=1)
        if layer.query_norm is not None and layer.key_norm is not None:
            queries, keys = self._norm(queries, layer.query_norm), self._norm(keys, layer.key_norm)
        queries, keys = rotate(queries, *angles), rotate(keys, *angles)
        kv.write(index, plan.slots, keys, values)
        found = []
        for group, mask in zip(plan.groups, masks, strict=True):
            seen = grouped_attention(queries[group.rows], *kv.read(index, group.blocks), mask)
            found.append(seen.flatten(0, 1))  # [B Q, H, D]
        rows = found[0] if len(found) == 1 else torch.cat(found)
        return _apply(layer.output, rows.index_select(0, plan.unpad).flatten(1))

    def _mlp(self, layer: LayerWeights, states: torch.Tensor) -> torch.Tensor:
        gate, up = _apply(layer.gate_up, self._norm(states, layer.mlp_norm)).chunk(2, dim=-1)
        return _apply(layer.down, silu(gate) * up)

    def _norm(self, states: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Root mean square norm, in float32 as the models' publishers compute it."""
        wide = states.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.shape.norm_epsilon)
        return weight * (wide * scale).to(states.dtype)


def _apply(matrix: Linear, states: torch.Tensor) -> torch.Tensor:
    return linear(states, matrix.weight, matrix.bias)
