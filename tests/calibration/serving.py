"""Services of the tiny pair: scenarios with stated KV room, every proposer and topology."""

from collections.abc import Callable
from dataclasses import dataclass

from calibration.contracts.named import contract_named
from calibration.contracts.transforms import Transforms
from calibration.model.target import LoadedModel
from calibration.paged.cache import KVCache
from calibration.proposers.lookahead import LookaheadShape
from calibration.proposers.ngram import NgramProposer
from calibration.proposers.suffix import SuffixProposer
from calibration.serve.proposing import (
    Proposing,
    by_draft_model,
    by_layer_skip,
    by_lookahead,
    by_lookup,
)
from calibration.serve.request import ServedRequest
from calibration.serve.run import Served, new_cache, serve
from calibration.serve.service import Service
from simcore.acceptance.topology.dynamic_tree import DynamicShape
from simcore.acceptance.tree import DraftTree, chain, wide_chains
from simcore.profile.schema import Sampling
from simcore.scenario import Scenario, parse_scenario
from tests.calibration.paging import FIXTURE
from tests.factories import cost_law

LOOKAHEAD = LookaheadShape(window=4, ngram=3, guesses=3)
CHAIN = chain(4)
TOPOLOGIES = {
    "chain 1": chain(1),
    "chain 4": CHAIN,
    "fixture": FIXTURE,
    "3 chains": wide_chains(3, 2),
    "dynamic": DynamicShape(topk=2, depth=3, num_nodes=6),
    "narrow dynamic": DynamicShape(topk=3, depth=3, num_nodes=3),  # reads more than it verifies
}
PROPOSERS = ("ngram", "suffix", "lookahead", "layer_skip", "draft_model")
FILLS_DYNAMIC = ("suffix", "layer_skip", "draft_model")
PAIRS = [
    (kind, name)
    for kind in PROPOSERS
    for name in TOPOLOGIES
    if "dynamic" not in name or kind in FILLS_DYNAMIC
]


def proposing(kind: str, target: LoadedModel, draft: LoadedModel) -> Proposing | None:
    makers: dict[str, Callable[[], Proposing | None]] = {
        "none": lambda: None,
        "ngram": lambda: by_lookup(NgramProposer),
        "suffix": lambda: by_lookup(SuffixProposer),
        "lookahead": lambda: by_lookahead(LOOKAHEAD),
        "layer_skip": lambda: by_layer_skip(target, 1),
        "draft_model": lambda: by_draft_model(draft),
    }
    return makers[kind]()


def speculation_of(topology) -> dict:
    if topology is None:
        return {}
    settings = {"proposer": "p", "num_speculative_tokens": topology.depth}
    if isinstance(topology, DynamicShape):
        dynamic = {"topk": topology.topk, "num_draft_tokens": topology.num_nodes}
        return settings | {"dynamic_tree": dynamic}
    if isinstance(topology, DraftTree) and topology.width > 1:
        return settings | {"tree": list(topology.parents)}
    return settings


def scenario_of(topology=CHAIN, temperature: float = 0.0, **changes) -> Scenario:
    """Greedy unless asked otherwise; keys may be dotted."""
    base = parse_scenario(
        {
            "name": "served",
            "profile": "none",
            "contract": "greedy_equality" if temperature == 0.0 else "exact_sampling",
            "sampling": {"temperature": temperature},
            "workload": {"arrivals": {"kind": "batch"}, "lengths": {"kind": "recorded"}},
            "deployment": {
                "block_size": 4,
                "max_num_seqs": 8,
                "max_num_batched_tokens": 96,
                "kv_cache_tokens": 2000,
            },
            "speculation": speculation_of(topology),
            "warmup_fraction": 0.0,
            "seed": 5,
        },
        "served scenario",
    )
    return base.with_(**changes) if changes else base


@dataclass(frozen=True)
class Pair:
    """Target and draft, loaded in the package's own forward."""

    target: LoadedModel
    draft: LoadedModel

    def service(
        self, kind: str, requests, topology=CHAIN, temperature=0.0, *, timed=False, **changes
    ) -> Service:
        proposer = proposing(kind, self.target, self.draft)
        named = TOPOLOGIES[topology] if isinstance(topology, str) else topology
        topology = None if proposer is None else named
        law = None if timed else _law()
        scenario = scenario_of(topology, temperature, **changes)
        return Service(scenario, list(requests), self.target, proposer, law)


def _law():
    law = cost_law()
    return law.model_copy(update={"propose": {"p": law.propose["ngram"]}})


def asked(prompts, max_tokens=20, temperature=0.0, gap_s=0.0, **settings) -> list[ServedRequest]:
    transforms = Transforms(Sampling(temperature=temperature))
    limits = max_tokens if isinstance(max_tokens, list) else [max_tokens] * len(prompts)
    return [
        ServedRequest(tuple(ids), limit, arrival_s=gap_s * place, transforms=transforms, **settings)
        for place, (ids, limit) in enumerate(zip(prompts, limits, strict=True))
    ]


def served(service: Service, contract: str = "greedy", **options) -> tuple[Served, KVCache]:
    service.check()
    cache = new_cache(service)
    topology_is_chain = service.scenario.speculation.topk == 1
    rule = contract_named(contract, is_chain=topology_is_chain)
    return serve(service, rule, cache=cache, **options), cache


def outputs(run: Served) -> list[list[int]]:
    return [text.output_ids for text in run.texts]


def all_returned(run: Served, cache: KVCache) -> None:
    """Every block is free in the ledger and in the tables, nothing is held or promised."""
    (replica,) = run.records.replicas
    assert replica["free_blocks"] == replica["total_blocks"] == cache.target.tables.num_free
    assert replica["draft_free_blocks"] == replica["draft_total_blocks"]
    assert cache.target.tables.requests == ()
    if cache.draft is not None:
        assert cache.draft.tables.num_free == cache.draft.tables.num_blocks
    for name in ("num_running", "num_waiting", "num_decoding", "outstanding_tokens"):
        assert replica[name] == 0
    assert (run.records.requests["held_blocks"] == 0).all()
