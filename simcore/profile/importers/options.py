"""What the user says beside the files: the identity that engines do not write down."""

from typing import Literal

from pydantic import Field

from simcore.profile.schema import LOOKUP_KINDS, Frozen, ProposerKind, Sampling


class ImportOptions(Frozen):
    """Options of one import; null: not said."""

    domain: str = Field("all", min_length=1, max_length=60)
    proposer: str | None = Field(None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    proposer_kind: ProposerKind | None = None
    gamma: int | None = Field(None, ge=1, le=64, description="drafts asked for in every cycle")
    sampling: Sampling | None = None
    target: str | None = None
    target_revision: str | None = None
    target_dtype: str | None = None
    target_quantization: str | None = None
    draft: str | None = None
    draft_revision: str | None = None
    draft_dtype: str | None = None
    draft_quantization: str | None = None
    context_tokens: tuple[int, int] | None = None
    engine_version: str | None = None
    num_requests: int | None = Field(
        None, ge=1, description="that the counters are of, where the engine does not count them"
    )
    column: str | None = Field(None, description="of an acceptance trace")
    accepted_or_emitted: Literal["accepted", "emitted"] | None = None
    per: Literal["position", "cycle"] | None = None
    proposed_column: str | None = None

    @property
    def always_drafts(self) -> bool:
        """Whether the proposer drafts in every cycle, as a model does and a lookup does not."""
        return self.proposer_kind not in LOOKUP_KINDS
