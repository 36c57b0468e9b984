"""How long one engine step takes: the law and its coefficients (DESIGN section 4).

    t_step = overhead + t_propose + t_target + t_reconcile

over the whole batch of one step. The same law prices plain decoding (γ = 0, nothing proposed),
so switching speculation off without tax is exactly plain decoding. Captured sizes, communication
and what surrounds a proposal (ProposerRun) are optional; left out they cost nothing.
"""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Law(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TargetLaw(_Law):
    """Seconds of one target pass: f(query tokens) + r·requests + s·scored + k·KV tokens read.

    f is piecewise linear through (`knot_tokens`, `knot_s`), non-decreasing; beyond the last knot
    it goes on with the last slope and the step is counted as extrapolated. k differs between a
    request with one query token and one with several: engines run other attention kernels there.
    Scored tokens get logits: roots and drafts, and of a prefill chunk the last token alone, which
    counts where the output layer is a large part of the model.
    """

    knot_tokens: tuple[int, ...] = Field(min_length=2)
    knot_s: tuple[float, ...] = Field(min_length=2)
    per_request_s: float = Field(0.0, ge=0.0)
    per_scored_token_s: float = Field(0.0, ge=0.0, description="times tokens that get logits")
    per_kv_token_plain_s: float = Field(ge=0.0, description="requests with one query token")
    per_kv_token_verify_s: float = Field(ge=0.0, description="requests with several")
    per_attention_pair_s: float = Field(
        0.0, ge=0.0, description="requests with several: times each pair of query and KV token"
    )
    pads_attention: bool = Field(
        False,
        description="attention runs over the decoding batch padded to its widest query and its "
        "longest context: an engine without ragged kernels. Linear layers are not padded",
    )

    @model_validator(mode="after")
    def _check_knots(self) -> Self:
        if len(self.knot_tokens) != len(self.knot_s):
            raise ValueError(
                f"{len(self.knot_tokens)} knot_tokens but {len(self.knot_s)} knot_s; expected equal"
            )
        if any(b <= a for a, b in zip(self.knot_tokens, self.knot_tokens[1:], strict=False)):
            raise ValueError(f"knot_tokens {self.knot_tokens} must increase")
        if any(b < a for a, b in zip(self.knot_s, self.knot_s[1:], strict=False)):
            raise ValueError(f"knot_s {self.knot_s} must not decrease")
        if self.knot_s[0] < 0:
            raise ValueError(f"knot_s starts at {self.knot_s[0]}; expected at least 0")
        return self


class LinearLaw(_Law):
    """Seconds of proposing or reconciling, linear in what the step holds."""

    base_s: float = Field(0.0, ge=0.0)
    per_pass_s: float = Field(0.0, ge=0.0, description="times γ: serial draft passes")
    per_request_s: float = Field(0.0, ge=0.0)
    per_draft_token_s: float = Field(0.0, ge=0.0, description="times drafts of the whole batch")
    per_kv_token_s: float = Field(0.0, ge=0.0, description="times context of the whole batch")
    per_kv_token_pass_s: float = Field(0.0, ge=0.0, description="times context times γ")
    target_fraction: float = Field(0.0, ge=0.0, description="share of the target pass's time")


class TokenLaw(_Law):
    """Seconds linear in a count of tokens."""

    base_s: float = Field(0.0, ge=0.0)
    per_token_s: float = Field(0.0, ge=0.0)


class Regime(_Law):
    """How target passes run outside full graphs: max(floor, GPU time + extra) seconds.

    The floor is the time of launching kernels from the host; where it is longer it hides all of
    the GPU's work, KV reads included. Extra is GPU time that a full graph would save.
    """

    floor_s: float = Field(0.0, ge=0.0)
    extra_s: float = Field(0.0, ge=0.0)


class Capture(_Law):
    """The step sizes that the engine captured as graphs, and what runs without.

    A step is padded up to the next captured size and pays for it: f(padded tokens), KV as read.
    Past the last size it runs eager. vLLM counts tokens (sizes 1, 2, 4, 8 .. 248 by 8, then by
    16, up to at most 512 or 1024) and captures full graphs for decoding, pieces without the
    attention beyond and for prefill; SGLang and TensorRT-LLM count requests, a graph of b
    requests scoring b·(1 + γ) tokens, and prefill outside graphs.
    """

    sizes: tuple[int, ...] = Field(min_length=1, description="ascending, of `captured_on`")
    captured_on: Literal["tokens", "requests"] = "tokens"
    full_until: int | None = Field(
        None, description="largest size captured as one graph, above in pieces; null: all whole"
    )
    prefill: Literal["full", "piecewise", "eager"] = Field(
        "full", description="how a step with prefill tokens runs, if its size is captured"
    )
    piecewise: Regime | None = Field(None, description="graphs in pieces; null: not measured")
    eager: Regime | None = Field(None, description="no graph; null: not measured, so refused")

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.sizes[0] < 1 or list(self.sizes) != sorted(set(self.sizes)):
            raise ValueError(f"captured sizes {self.sizes}; expected ascending from 1, each once")
        if self.captured_on == "requests" and self.prefill != "eager":
            raise ValueError(
                f"sizes count requests, but prefill is {self.prefill!r}; expected 'eager': a graph "
                "of so many decoding requests holds no prefill"
            )
        pieces = self.full_until is not None and self.full_until < self.sizes[-1]
        if (pieces or self.prefill == "piecewise") and self.piecewise is None:
            raise ValueError(
                f"full_until {self.full_until} and prefill {self.prefill!r} use graphs in pieces, "
                "but `piecewise` is not given; measure it"
            )
        return self


class ProposerRun(_Law):
    """Where one proposer runs, and what it costs beside its proposals.

    placement `serial`: t_propose adds to t_target. `parallel`: the next drafts are made while
    the target verifies, on its device (PEARL's and AMUSD's scheme): both together take
    max(propose, target) + sharing · min(propose, target), where sharing is the share of the
    shorter that the longer cannot hide (they contend for one memory bus); 1 is serial.
    `own_device`: the same on a device of its own, so without sharing. What shows beyond the target
    pass is recorded as propose_s. A host-side proposal (n-gram lookup) behind the target pass is
    `parallel` with sharing 1 − the share hidden. Drafts made ahead and thrown away by a rejection
    are no cost of their own here: record acceptance in the mode that is priced.
    """

    placement: Literal["serial", "parallel", "own_device"] = "serial"
    sharing: float = Field(0.0, ge=0.0, le=1.0, description="of `parallel`")
    host_overlap: float | None = Field(
        None, ge=0.0, le=1.0, description="in place of CostLaw.host_overlap while it is loaded"
    )
    per_prefill_token_s: float = Field(
        0.0, ge=0.0, description="the draft's own prefill, in every step with prefill tokens"
    )
    switch_on: TokenLaw = Field(
        TokenLaw(),
        description="catching up, in the step that drafts for requests which decoded without "
        "drafts before: base once, per token that the draft's KV lags",
    )

    @model_validator(mode="after")
    def _check_sharing(self) -> Self:
        if self.sharing > 0.0 and self.placement != "parallel":
            raise ValueError(
                f"sharing {self.sharing} with placement {self.placement!r}; it says how much two "
                "passes on one device contend: expected 0 unless 'parallel'"
            )
        return self


class CostDomain(_Law):
    """The box that was measured; a step outside is extrapolated and counted."""

    max_batch_size: int = Field(ge=1, description="requests of one step")
    max_context_tokens: int = Field(ge=1, description="of one request")
    max_query_tokens_per_request: int = Field(ge=1, description="1 + γ")
    max_step_tokens: int = Field(ge=1, description="query and prefill tokens of one step")


class FitError(_Law):
    """Relative error of the law on samples that the fit did not see."""

    num_samples: int = Field(ge=1)
    median_rel: float = Field(ge=0.0, description="share of the measured time")
    p90_rel: float = Field(ge=0.0, description="share of the measured time")
    max_rel: float = Field(ge=0.0, description="share of the measured time")


class CostLaw(_Law):
    """Everything needed to price a step of one target with any of its proposers."""

    target: TargetLaw
    propose: dict[str, LinearLaw]
    idle_propose: dict[str, LinearLaw] = Field(
        default_factory=dict,
        description="proposer -> what a step without drafts still pays while it is loaded",
    )
    reconcile: LinearLaw = LinearLaw()
    overhead_s: float = Field(0.0, ge=0.0)
    host_overlap: float = Field(
        0.0,
        ge=0.0,
        le=1.0,
        description="share of reconcile and overhead hidden under the target pass, as far as that "
        "lasts (asynchronous scheduling)",
    )
    comm: TokenLaw = Field(
        TokenLaw(),
        description="tensor-parallel communication of the target pass, by the tokens it scores; a "
        "fit to timed passes holds it already",
    )
    capture: Capture | None = Field(None, description="null: no sizes are padded, no cliff")
    proposer_runs: dict[str, ProposerRun] = Field(
        default_factory=dict, description="proposer -> placement and further costs, if any"
    )
    domain: CostDomain
    held_out_error: dict[str, FitError] = Field(
        default_factory=dict, description="phase -> error; empty where the source states none"
    )

    @model_validator(mode="after")
    def _check_proposers(self) -> Self:
        unknown = {*self.idle_propose, *self.proposer_runs} - set(self.propose)
        if unknown:
            raise ValueError(
                f"idle_propose or proposer_runs name {sorted(unknown)}; expected among "
                f"{sorted(self.propose)}"
            )
        return self
