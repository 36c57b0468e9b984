"""How much KV fits: memory less weights, draft weights and what is kept free."""

from dataclasses import dataclass

from simcore.errors import InfeasibleError
from simcore.profile.schema import Profile
from simcore.scenario import Deployment


@dataclass(frozen=True)
class KVBudget:
    """KV room of one replica, and what speculation took of it."""

    total_blocks: int
    block_size: int
    bytes_per_token: int
    draft_weight_bytes: int
    draft_kv_bytes_per_token: int

    @property
    def total_tokens(self) -> int:
        """Tokens that the blocks hold."""
        return self.total_blocks * self.block_size


def kv_budget(profile: Profile, deployment: Deployment, proposer: str | None) -> KVBudget:
    """The KV blocks that one replica has.

    A proposer's weights come off the memory and its KV makes every token larger (one block table
    for target and draft, as in vLLM). With `kv_cache_tokens` the room is stated, all weights taken
    off; a draft's KV shrinks its tokens in proportion. Raises InfeasibleError where nothing is
    left.
    """
    target, hardware = profile.identity.target, profile.identity.hardware
    draft = profile.proposers[proposer] if proposer is not None else None
    # Stated room is room for KV: whatever weights there are have been taken off before.
    stated = deployment.kv_cache_tokens is not None
    draft_weight_bytes = draft.weight_bytes if draft and not stated else 0
    draft_kv_bytes = draft.kv_bytes_per_token if draft else 0
    bytes_per_token = target.kv_bytes_per_token + draft_kv_bytes
    if deployment.kv_cache_tokens is not None:
        room_bytes = deployment.kv_cache_tokens * target.kv_bytes_per_token
    else:
        memory_bytes = hardware.memory_bytes * hardware.device_count
        room_bytes = (
            int(memory_bytes * deployment.memory_utilization)
            - target.weight_bytes
            - draft_weight_bytes
        )
    blocks = max(room_bytes, 0) // (bytes_per_token * deployment.block_size)
    if blocks < 1:
        raise InfeasibleError(
            f"no room for KV: {room_bytes / 1e9:.2f} GB are left after "
            f"{target.weight_bytes / 1e9:.2f} GB of weights and {draft_weight_bytes / 1e9:.2f} GB "
            f"of draft weights, a block of {deployment.block_size} tokens takes "
            f"{bytes_per_token * deployment.block_size} bytes; use a larger device or raise "
            "memory_utilization or kv_cache_tokens"
        )
    return KVBudget(
        blocks, deployment.block_size, bytes_per_token, draft_weight_bytes, draft_kv_bytes
    )
