"""How much KV fits: memory less weights, draft weights, workspace and what is kept free."""

from dataclasses import dataclass

from simcore.engines import RULES
from simcore.errors import InfeasibleError
from simcore.profile.schema import Hardware, ModelIdentity, Profile, Proposer
from simcore.scenario import Deployment
from simcore.speculation import Speculation

LOGIT_BYTES = 4  # engines turn logits into float32 before they sample


@dataclass(frozen=True)
class KVBudget:
    """Memory of one replica, where it goes, and what speculation took of it."""

    total_blocks: int
    block_size: int
    bytes_per_token: int  # of a block's token: target, and draft where it lies in the same block
    draft_weight_bytes: int
    draft_kv_bytes_per_token: int
    draft_blocks: int = 0  # of a pool of its own
    draft_block_size: int = 0
    memory_bytes: int | None = None  # of all its devices; None: only KV room was stated
    usable_bytes: int | None = None
    target_weight_bytes: int = 0
    workspace_bytes: int = 0  # logits of the most tokens that a step scores
    logit_bytes_per_token: int = 0
    plain_tokens: int = 0  # KV tokens that the same memory holds without speculation

    @property
    def total_tokens(self) -> int:
        """Tokens that the blocks hold."""
        return self.total_blocks * self.block_size

    @property
    def pools_are_alike(self) -> bool:
        """Whether each block of the draft's own pool stands for one of the target's."""
        return (self.draft_blocks, self.draft_block_size) == (self.total_blocks, self.block_size)

    @property
    def lost_tokens(self) -> int:
        """KV tokens that draft weights, draft KV and the wider workspace took."""
        return max(self.plain_tokens - self.total_tokens, 0)


def kv_budget(profile: Profile, deployment: Deployment, speculation: Speculation) -> KVBudget:
    """The KV blocks that one replica has, and the ledger of its memory.

    Weights of every proposer come off the memory; so does the workspace, logits of every token
    that a step may score. Draft KV makes a token of the shared block table larger (vLLM), or has a
    pool of its own, by default with as many tokens (TensorRT-LLM splits by bytes). With
    `kv_cache_tokens` the room is stated, weights and workspace taken off; a draft's KV shrinks its
    tokens in proportion. Raises InfeasibleError where nothing is left.
    """
    target, hardware = profile.identity.target, profile.identity.hardware
    drafts = [profile.proposers[name] for name in speculation.proposers()]
    plain = split_memory(target, hardware, deployment, [])
    if not drafts:
        return plain
    scored_tokens = 1 + speculation.num_draft_tokens
    budget = split_memory(target, hardware, deployment, drafts, scored_tokens)
    return _with_plain(budget, plain.total_blocks * plain.block_size)


def _with_plain(budget: KVBudget, plain_tokens: int) -> KVBudget:
    return KVBudget(**(vars(budget) | {"plain_tokens": plain_tokens}))


def split_memory(
    target: ModelIdentity,
    hardware: Hardware,
    deployment: Deployment,
    drafts: list[Proposer],
    scored_tokens: int = 1,
) -> KVBudget:
    """The memory of one replica with these proposers, a request scoring so many tokens a step."""
    draft_kv_bytes = sum(draft.kv_bytes_per_token for draft in drafts)
    bytes_per_token = target.kv_bytes_per_token + draft_kv_bytes
    logit_bytes = LOGIT_BYTES * target.vocab_size
    workspace_bytes = deployment.max_num_seqs * scored_tokens * logit_bytes
    memory_bytes = usable_bytes = None
    # Stated room is room for KV: whatever else there is has been taken off before.
    weight_bytes = draft_weight_bytes = 0
    if deployment.kv_cache_tokens is not None:
        room_bytes = deployment.kv_cache_tokens * target.kv_bytes_per_token
    else:
        memory_bytes = hardware.memory_bytes * hardware.device_count
        usable_bytes = int(memory_bytes * deployment.memory_utilization)
        weight_bytes = target.weight_bytes
        draft_weight_bytes = sum(draft.weight_bytes for draft in drafts)
        room_bytes = usable_bytes - weight_bytes - draft_weight_bytes - workspace_bytes
    own_pool = _has_own_pool(deployment) and draft_kv_bytes > 0
    target_bytes, draft_bytes = max(room_bytes, 0), 0
    if own_pool:
        fraction = deployment.draft_kv_fraction or draft_kv_bytes / bytes_per_token
        draft_bytes = int(target_bytes * fraction)
        target_bytes -= draft_bytes
        bytes_per_token -= draft_kv_bytes
    draft_size = (deployment.draft_block_size or deployment.block_size) if own_pool else 0
    blocks = target_bytes // (bytes_per_token * deployment.block_size)
    draft_blocks = draft_bytes // (draft_kv_bytes * draft_size) if own_pool else 0
    if blocks < 1 or (own_pool and draft_blocks < 1):
        raise InfeasibleError(
            f"no room for KV: {room_bytes / 1e9:.2f} GB are left after "
            f"{target.weight_bytes / 1e9:.2f} GB of weights, {draft_weight_bytes / 1e9:.2f} GB of "
            f"draft weights and {workspace_bytes / 1e9:.2f} GB of workspace, a block of "
            f"{deployment.block_size} tokens takes {bytes_per_token * deployment.block_size} "
            "bytes; use a larger device or raise memory_utilization or kv_cache_tokens"
        )
    if own_pool and deployment.draft_kv_fraction is None and draft_size == deployment.block_size:
        blocks = draft_blocks = min(blocks, draft_blocks)  # one token more in one pool is no use
    return KVBudget(
        total_blocks=int(blocks),
        block_size=deployment.block_size,
        bytes_per_token=bytes_per_token,
        draft_weight_bytes=draft_weight_bytes,
        draft_kv_bytes_per_token=draft_kv_bytes,
        draft_blocks=int(draft_blocks),
        draft_block_size=draft_size,
        memory_bytes=memory_bytes,
        usable_bytes=usable_bytes,
        target_weight_bytes=weight_bytes,
        workspace_bytes=workspace_bytes,
        logit_bytes_per_token=logit_bytes,
        plain_tokens=int(blocks) * deployment.block_size,
    )


def _has_own_pool(deployment: Deployment) -> bool:
    if deployment.draft_pool == "auto":
        return RULES[deployment.preset].has_own_draft_pool
    return deployment.draft_pool == "own"
