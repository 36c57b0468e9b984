"""How long one engine step takes: the law and its coefficients (DESIGN section 4).

    t_step = overhead + t_propose + t_target + t_reconcile

over the whole batch of one step. The same law prices plain decoding (γ = 0, nothing proposed),
so switching speculation off without tax is exactly plain decoding.
"""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Law(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TargetLaw(_Law):
    """Seconds of one target pass: f(query tokens) + r·requests + k·KV tokens read.

    f is piecewise linear through (`knot_tokens`, `knot_s`), non-decreasing; beyond the last knot
    it goes on with the last slope and the step is counted as extrapolated. k differs between a
    request with one query token and one with several: engines run other attention kernels there.
    """

    knot_tokens: tuple[int, ...] = Field(min_length=2)
    knot_s: tuple[float, ...] = Field(min_length=2)
    per_request_s: float = Field(0.0, ge=0.0)
    per_kv_token_plain_s: float = Field(ge=0.0, description="requests with one query token")
    per_kv_token_verify_s: float = Field(ge=0.0, description="requests with several")

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


class CostDomain(_Law):
    """The box that was measured; a step outside is extrapolated and counted."""

    max_batch_size: int = Field(ge=1)
    max_context_tokens: int = Field(ge=1, description="of one request")
    max_query_tokens_per_request: int = Field(ge=1, description="1 + γ")
    max_step_tokens: int = Field(ge=1, description="query and prefill tokens of one step")


class FitError(_Law):
    """Relative error of the law on samples that the fit did not see."""

    num_samples: int = Field(ge=1)
    median_rel: float = Field(ge=0.0)
    p90_rel: float = Field(ge=0.0)
    max_rel: float = Field(ge=0.0)


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
    domain: CostDomain
    held_out_error: dict[str, FitError] = Field(
        default_factory=dict, description="phase -> error; empty where the source states none"
    )
