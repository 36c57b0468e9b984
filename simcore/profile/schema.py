"""What a profile says: identity, provenance, cost law, proposers, acceptance records.

A profile is one folder: `profile.json` (this schema) beside its Parquet tables, `cost.parquet`
(timed samples), `traces.parquet` (acceptance traces) and `requests.parquet` (counters by request).
See docs/reference/profile-format.md.
"""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from simcore.cost.law import CostLaw
from simcore.profile.counts import Counts, Origin

SCHEMA_VERSION = 1


class Frozen(BaseModel):
    """Base of all configuration: immutable, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Source(StrEnum):
    """Where the numbers of a profile come from."""

    MEASURED = "measured"
    IMPORTED = "imported"
    PUBLISHED = "published"
    ESTIMATED = "estimated"


class Contract(StrEnum):
    """What the accepted text promises about the target's distribution."""

    GREEDY_EQUALITY = "greedy_equality"
    EXACT_SAMPLING = "exact_sampling"


RecordKind = Literal[
    "trace", "survival", "histogram", "position_counters", "request_counters", "totals"
]
COUNTED_KINDS = ("histogram", "position_counters", "request_counters", "totals")
ProposerKind = Literal["ngram", "suffix", "lookahead", "layer_skip", "draft_model", "eagle"]
LOOKUP_KINDS = ("ngram", "suffix", "lookahead")  # no pass of a model; nothing found, no draft
OWN_MODEL_KINDS = ("draft_model", "eagle")  # weights and KV beside the target's
TableName = Literal["cost", "traces", "requests"]


class Sampling(Frozen):
    """The request's transforms of the target's distribution; temperature 0 is greedy.

    Acceptance holds for these alone. What is off is left out of what is written.
    """

    temperature: float = Field(0.0, ge=0.0, le=10.0, description="divides the logits; 0: greedy")
    top_k: int = Field(0, ge=0, description="0: all tokens")
    top_p: float = Field(1.0, gt=0.0, le=1.0, description="probability mass kept; 1: all")
    min_p: float = Field(
        0.0,
        ge=0.0,
        le=1.0,
        description="least share of the likeliest token's probability that is kept; 0: off",
        exclude_if=lambda value: value == 0.0,
    )
    repetition_penalty: float = Field(
        1.0,
        gt=0.0,
        description="divides positive logits of tokens that occurred, multiplies others; 1: off",
        exclude_if=lambda value: value == 1.0,
    )
    logit_bias: tuple[tuple[Annotated[int, Field(ge=0)], float], ...] = Field(
        (), description="(token, added to its logit), by token", exclude_if=lambda value: not value
    )
    constraint: str | None = Field(
        None,
        min_length=1,
        description="name of the grammar, expression or schema that outputs follow",
        exclude_if=lambda value: value is None,
    )

    @model_validator(mode="after")
    def _check_bias(self) -> Self:
        tokens = [token for token, _ in self.logit_bias]
        if tokens != sorted(set(tokens)):
            raise ValueError(f"logit_bias of tokens {tokens}; expected each once, ascending")
        return self

    @property
    def further(self) -> str:
        """Transforms beyond temperature, top-k and top-p in words; empty where all are off."""
        parts = [
            f"min-p {self.min_p:g}" if self.min_p > 0.0 else "",
            f"repetition penalty {self.repetition_penalty:g}"
            if self.repetition_penalty != 1.0
            else "",
            f"logit bias on {len(self.logit_bias)} tokens" if self.logit_bias else "",
            f"constraint {self.constraint}" if self.constraint else "",
        ]
        return ", ".join(part for part in parts if part)


class ModelIdentity(Frozen):
    """Which weights exactly, in which numbers."""

    name: str
    revision: str = Field(description="sha256 of the weight file, or the publisher's revision")
    num_parameters: int = Field(gt=0)
    dtype: str = Field(description="numbers that the engine computes in")
    quantization: str = Field(description="how the stored weights are coded; 'none' if not")
    tokenizer: str = Field(description="sha256 of the tokenizer, or its published name")
    vocab_size: int = Field(gt=0, description="tokens")
    weight_bytes: int = Field(ge=0, description="in memory, as the engine holds them")
    kv_bytes_per_token: int = Field(ge=0)


class Hardware(Frozen):
    """The machine one replica runs on."""

    device: Literal["cpu", "cuda"]
    name: str
    device_count: int = Field(1, ge=1, description="devices of one replica")
    memory_bytes: int = Field(gt=0, description="of one device")
    threads: int | None = Field(None, ge=1, description="CPU threads that the engine used")
    busy_power_w: float | None = Field(None, ge=0.0, description="of one device, in a step")
    idle_power_w: float | None = Field(None, ge=0.0, description="of one device, between steps")
    price_usd_per_hour: float | None = Field(None, ge=0.0, description="of one device")

    @model_validator(mode="after")
    def _check_power(self) -> Self:
        busy, idle = self.busy_power_w, self.idle_power_w
        if (busy is None) != (idle is None):
            raise ValueError(
                f"busy_power_w {busy} and idle_power_w {idle}; expected both, or neither where "
                "one is unknown"
            )
        if busy is not None and idle is not None and idle > busy:
            raise ValueError(
                f"idle_power_w {idle:g} above busy_power_w {busy:g}; expected at most that"
            )
        return self


class Engine(Frozen):
    """The program that ran the steps."""

    name: str
    version: str
    settings: dict[str, str] = Field(default_factory=dict)


class Identity(Frozen):
    """Everything a result depends on that is not a number to plan with."""

    target: ModelIdentity
    hardware: Hardware
    engine: Engine
    tensor_parallel: int = Field(1, ge=1, description="devices that share one layer")


class Provenance(Frozen):
    """Who can repeat this, and how."""

    date: str = Field(description="ISO date of the measurement or publication")
    command: str = ""
    versions: dict[str, str] = Field(default_factory=dict)
    seeds: dict[str, int] = Field(default_factory=dict, description="random stream -> seed")
    sample_counts: dict[str, int] = Field(
        default_factory=dict, description="what was counted -> how many"
    )
    citations: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Proposer(Frozen):
    """One way to propose drafts, and what it takes from the memory."""

    kind: ProposerKind
    settings: dict[str, int | float | str] = Field(
        default_factory=dict, description="as the program that proposed names them"
    )
    model: ModelIdentity | None = None
    weight_bytes: int = Field(0, ge=0)
    kv_bytes_per_token: int = Field(0, ge=0)


class AcceptanceRecord(Frozen):
    """How drafts of one proposer survived on one domain under one sampling and contract.

    `kind` "trace": rows of traces.parquet whose `record` column equals `key`; every γ up to
    `max_num_speculative_tokens` can be replayed. `kind` "survival": conditional acceptance at
    cycle starts for the γ listed, and for no other. The other kinds hold `counts` by γ as an
    engine counts them: "histogram" of accepted lengths, "position_counters", "request_counters"
    (rows of requests.parquet, pooled here) and "totals"; simcore/profile/conversions.py says what
    can be planned with.
    """

    key: int = Field(ge=0, description="the record's number in the tables")
    proposer: str
    domain: str
    sampling: Sampling
    contract: Contract
    kind: RecordKind
    max_num_speculative_tokens: int = Field(ge=1)
    num_requests: int = Field(ge=0, description="0: the source does not say")
    counted_at: Literal["cycle_starts", "every_position"]
    conditional_acceptance: dict[int, tuple[float, ...]] = Field(
        default_factory=dict, description="γ -> (a_1 .. a_γ), for kind 'survival'"
    )
    num_cycles: dict[int, int] = Field(
        default_factory=dict, description="γ -> cycles counted, where the source says"
    )
    match_probability: float = Field(
        1.0, gt=0.0, le=1.0, description="share of cycles that proposed anything; a_1 counts all"
    )
    counts: dict[int, Counts] = Field(
        default_factory=dict, description="γ -> counted cycles, for the kinds that count"
    )
    origin: Origin | None = Field(None, description="of an imported record")
    citation: str = ""

    @model_validator(mode="after")
    def _check_rates(self) -> Self:
        if (self.kind == "survival") != bool(self.conditional_acceptance):
            raise ValueError(
                f"record {self.key} is a {self.kind!r} with "
                f"{len(self.conditional_acceptance)} lists of conditional acceptance; expected "
                "them for kind 'survival' and only there"
            )
        self._check_counts()
        for gamma, rates in self.conditional_acceptance.items():
            if len(rates) != gamma or not all(0.0 <= rate <= 1.0 for rate in rates):
                raise ValueError(
                    f"record {self.key}, γ = {gamma}: got {list(rates)}; expected {gamma} rates "
                    "between 0 and 1"
                )
            if rates[0] > self.match_probability:
                raise ValueError(
                    f"record {self.key}, γ = {gamma}: a_1 = {rates[0]} exceeds the match "
                    f"probability {self.match_probability}; a_1 counts every cycle"
                )
        return self

    def _check_counts(self) -> None:
        if (self.kind in COUNTED_KINDS) != bool(self.counts):
            raise ValueError(
                f"record {self.key} is a {self.kind!r} with counts of {len(self.counts)} draft "
                f"lengths; expected counts for the kinds {', '.join(COUNTED_KINDS)} and only there"
            )
        if self.counts and self.match_probability != 1.0:
            raise ValueError(
                f"record {self.key} states match_probability beside counts; expected it to follow "
                "from num_drafts and num_cycles"
            )
        for gamma, counts in self.counts.items():
            counts.check(self.kind, gamma)

    def gammas(self) -> tuple[int, ...]:
        """The draft lengths that were measured, ascending."""
        if self.kind == "trace":
            return tuple(range(1, self.max_num_speculative_tokens + 1))
        return tuple(sorted(self.conditional_acceptance or self.counts))


class TableFile(Frozen):
    """A Parquet file of the profile, and how to know that it is whole."""

    file: str = Field(pattern=r"^[A-Za-z0-9_.-]+\.parquet$")
    rows: int = Field(ge=1, description="of the table, the header not counted")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Profile(Frozen):
    """One target on one machine: what its cycles cost and how its drafts survive."""

    schema_version: Literal[1]
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")
    title: str
    source: Source
    identity: Identity
    provenance: Provenance
    proposers: dict[str, Proposer]
    cost: CostLaw
    acceptance: tuple[AcceptanceRecord, ...] = Field(min_length=1)
    tables: dict[TableName, TableFile] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_references(self) -> Self:
        _check_records(self.acceptance, self.proposers)
        missing = set(self.proposers) - set(self.cost.propose)
        if missing:
            raise ValueError(f"proposers {sorted(missing)} have no propose cost law")
        return self


class ProfilePart(Frozen):
    """What an import holds that is not enough to plan with, kept where a profile would be.

    `missing` names what a profile has beyond it. A part is never simulated or planned with: it
    can be looked at and be merged into (docs/reference/importers.md).
    """

    schema_version: Literal[1]
    missing: tuple[Literal["identity", "cost", "acceptance"], ...] = Field(min_length=1)
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")
    title: str
    source: Source
    identity: Identity | None = None
    provenance: Provenance
    proposers: dict[str, Proposer] = Field(default_factory=dict)
    cost: CostLaw | None = None
    acceptance: tuple[AcceptanceRecord, ...] = ()
    tables: dict[TableName, TableFile] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_references(self) -> Self:
        _check_records(self.acceptance, self.proposers)
        lacking = [name for name in ("identity", "cost", "acceptance") if not getattr(self, name)]
        if list(self.missing) != lacking:
            raise ValueError(f"missing {list(self.missing)}; the part itself lacks {lacking}")
        return self


def _check_records(records: tuple[AcceptanceRecord, ...], proposers: dict[str, Proposer]) -> None:
    keys = [record.key for record in records]
    if len(set(keys)) != len(keys):
        raise ValueError(f"acceptance keys {keys} repeat; expected each once")
    for record in records:
        if record.proposer not in proposers:
            raise ValueError(
                f"acceptance record {record.key} names proposer {record.proposer!r}; "
                f"expected one of {sorted(proposers)}"
            )
