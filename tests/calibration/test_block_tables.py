"""Block numbers follow the simulator's ledger, whatever it does, and nobody's KV is overwritten."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.paged.ledger import Ledger
from calibration.paged.mirror import Mirror
from calibration.paged.tables import BlockTables, Holding
from simcore.serving import service
from simcore.serving.setup import new_state
from tests.factories import make_scenario

pytestmark = pytest.mark.torch
PROPERTIES = settings(derandomize=True, deadline=None, max_examples=40)
TREE = (2, 5, 5, 0)  # depth, verified, proposed, scheme


class Memory:
    """Slots that remember whose token was written last, as KV tensors would."""

    def __init__(self, tables: BlockTables) -> None:
        self.tables = tables
        self.slots = np.full(tables.num_blocks * tables.block_size, -1, dtype=np.int64)

    def owner(self, state, request: int, places: np.ndarray) -> np.ndarray:
        """The same number for the same token of a shared content, another for any other."""
        row = state.requests[request]
        runs = state.prefix_runs[row["prefix_begin"] : row["prefix_end"]]
        contents = [c for first, count in runs.tolist() for c in range(first, first + count)]
        size = self.tables.block_size
        own = -2 - (request * 100_000 + places)
        known = np.array([*contents, -1], dtype=np.int64)
        blocks = np.minimum(places // size, len(contents))
        return np.where(blocks < len(contents), known[blocks] * size + places % size, own)

    def write(self, state, request: int, begin: int, end: int) -> None:
        places = np.arange(begin, end)
        self.slots[self.tables.slots(request, places)] = self.owner(state, request, places)

    def check(self, state, request: int) -> None:
        places = np.arange(int(state.requests[request]["committed_tokens"]))
        found = self.slots[self.tables.slots(request, places)]
        assert np.array_equal(found, self.owner(state, request, places))


@st.composite
def stories(draw):
    """What happens to up to five requests, two of which begin alike."""
    events = st.tuples(
        st.sampled_from(["enter", "prefill", "cycle", "abandon", "preempt", "leave"]),
        st.integers(0, 4),
        st.integers(1, 9),
    )
    return draw(st.lists(events, min_size=5, max_size=60))


@given(
    story=stories(),
    block_size=st.sampled_from([1, 2, 4]),
    has_pool=st.booleans(),
    shares=st.booleans(),
)
@PROPERTIES
def test_any_order_of_operations_keeps_counts_numbers_and_contents(
    story, block_size, has_pool, shares
):
    blocks = 24
    ledger = Ledger.new(
        200,
        blocks,
        block_size,
        modes=[TREE],
        draft_blocks=blocks if has_pool else 0,
        draft_block_size=block_size if has_pool else 0,
        prefix_runs=[(0, 3), (3, 2)] if shares else [],
    )
    tables = BlockTables(blocks, block_size)
    mirrors = [Mirror(tables, "target")]
    if has_pool:
        mirrors.append(Mirror(BlockTables(blocks, block_size), "draft"))
    memory = Memory(tables)
    teller = _Teller(ledger, mirrors, memory, shares)
    for event, who, amount in story:
        getattr(teller, event)(who, amount)
        for request in ledger.running:
            memory.check(ledger.state, request)
    for who in list(teller.names):
        teller.leave(who, 0)
    assert ledger.free_blocks == tables.num_free == blocks


class _Teller:
    """Plays a story; a name that has left comes back as another request."""

    def __init__(self, ledger, mirrors, memory, shares) -> None:
        self.ledger, self.mirrors, self.memory, self.shares = ledger, mirrors, memory, shares
        self.names: dict[int, int] = {}
        self.preempted: dict[int, int] = {}
        self.count = 0

    def follow(self) -> None:
        for mirror in self.mirrors:
            mirror.follow(self.ledger.state, self.ledger.running)

    def enter(self, who: int, amount: int) -> None:
        if who in self.names:
            return
        request = self.preempted.pop(who, None)
        if request is None:
            request, self.count = self.count, self.count + 1
        prefix = ((0, 2) if who == 0 else (0, 1)) if self.shares and who < 3 else (0, 0)
        tokens = 4 * self.mirrors[0].tables.block_size + amount
        self.ledger.enter(request, tokens, prefix=prefix)
        self.names[who] = request
        self.follow()

    def prefill(self, who: int, amount: int) -> None:
        request = self.names.get(who)
        left = 0 if request is None else self.ledger.prefill_left_tokens(request)
        if left == 0 or not self.ledger.reserve_prefill(request, min(left, amount)):
            return
        self._run(request, min(left, amount), 0, 0)

    def cycle(self, who: int, amount: int) -> None:
        request = self.names.get(who)
        if request is None or self.ledger.prefill_left_tokens(request):
            return
        if self.ledger.reserve_cycle(request, 1):
            self._run(request, 6, 5, amount % 3)

    def _run(self, request: int, tokens: int, verified: int, accepted: int) -> None:
        self.follow()
        begin = self.ledger.committed_tokens(request)
        self.memory.write(self.ledger.state, request, begin, begin + tokens)
        self.ledger.commit(request, verified, accepted)
        self.follow()

    def abandon(self, who: int, amount: int) -> None:
        request = self.names.get(who)
        if request is None or self.ledger.prefill_left_tokens(request):
            return
        before = self.ledger.free_blocks, self.ledger.draft_free_blocks
        if self.ledger.reserve_cycle(request, 1):
            self.follow()
            self.ledger.abandon(request)
            self.follow()
            assert (self.ledger.free_blocks, self.ledger.draft_free_blocks) == before

    def preempt(self, who: int, amount: int) -> None:
        if who in self.names:
            request = self.preempted[who] = self.names.pop(who)
            self.ledger.preempt(request)
            self.follow()

    def leave(self, who: int, amount: int) -> None:
        if who in self.names:
            self.ledger.leave(self.names.pop(who))
            self.follow()


CHANGES = st.fixed_dictionaries(
    {
        "workload.num_requests": st.integers(5, 30),
        "workload.arrivals": st.just({"kind": "poisson", "rate_per_s": 40.0}),
        "workload.lengths": st.builds(
            lambda prompt, output: {
                "kind": "lognormal",
                "prompt": {"mean_tokens": prompt, "cv": 0.5, "max_tokens": 3 * prompt},
                "output": {"mean_tokens": output, "cv": 1.0, "max_tokens": 3 * output},
            },
            st.integers(4, 50),
            st.integers(2, 40),
        ),
        "workload.sessions": st.sampled_from([None, {"mean_turns": 3.0}]),
        "deployment.replicas": st.integers(1, 2),
        "deployment.block_size": st.sampled_from([1, 4, 16]),
        "deployment.kv_cache_tokens": st.sampled_from([400, 700]),
        "deployment.prefix_caching": st.booleans(),
        "deployment.draft_pool": st.sampled_from(["shared", "own"]),
        "deployment.failures": st.sampled_from(
            [{}, {"mean_time_between_s": 2.0, "mean_repair_s": 0.5}]
        ),
        "workload.patience_s": st.sampled_from([None, 3.0]),
        "speculation.proposer": st.sampled_from(["ngram", "draft_model"]),
        "speculation.num_speculative_tokens": st.integers(0, 6),
        "seed": st.integers(0, 1000),
    }
)


class _Watch:
    """Numbers and contents of every replica beside a simulated service, step by step."""

    def __init__(self, state, budget) -> None:
        self.mirrors, self.memories = [], []
        for index in range(len(state.replicas)):
            tables = BlockTables(budget.total_blocks, budget.block_size)
            self.memories.append(Memory(tables))
            pools = [Mirror(tables, "target", index)]
            if budget.draft_block_size:
                draft = BlockTables(budget.draft_blocks, budget.draft_block_size)
                pools.append(Mirror(draft, "draft", index))
            self.mirrors.append(pools)
        self.num_followed = 0

    def follow(self, state) -> None:
        for index, pools in enumerate(self.mirrors):
            running = state.running[index, : state.replicas[index]["num_running"]]
            for mirror in pools:
                mirror.follow(state, running)
            for request in running.tolist():
                self.memories[index].check(state, request)
        self.num_followed += 1

    def write(self, state, index) -> None:
        for request in state.running[index, : state.replicas[index]["num_running"]].tolist():
            row = state.requests[request]
            begin = int(row["committed_tokens"])
            self.memories[index].write(state, request, begin, begin + int(row["step_tokens"]))


def run_watched(scenario, stored) -> tuple[_Watch, np.ndarray]:
    """Every event of a service, its block numbers beside it; the request records at the end."""
    prepared = new_state(scenario, stored)
    watch = _Watch(prepared.state, prepared.budget)

    def watched(name):
        original = getattr(service, name)

        def call(state, *arguments):
            found = original(state, *arguments)
            watch.follow(state)
            if name == "begin" and state.replicas[arguments[0]]["is_busy"]:
                watch.write(state, arguments[0])
            return found

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("begin", "commit", "give_up", "meet_faults"):
            patch.setattr(service, name, watched(name))
        service.Service(prepared.state).run_stepwise()
    for pools in watch.mirrors:
        assert all(mirror.tables.num_free == mirror.tables.num_blocks for mirror in pools)
    return watch, prepared.state.requests


@given(changes=CHANGES)
@settings(derandomize=True, deadline=None, max_examples=30)
def test_numbers_follow_the_scheduler_through_every_event_of_a_service(recorded_profile, changes):
    watch, _ = run_watched(make_scenario(recorded_profile, **changes), recorded_profile)
    assert watch.num_followed > 0


@pytest.mark.parametrize("draft_pool", ["shared", "own"])
def test_numbers_follow_preemptions_shared_prefixes_and_failures(recorded_profile, draft_pool):
    changes = {
        "workload.num_requests": 80,
        "workload.arrivals": {"kind": "poisson", "rate_per_s": 30.0},
        "workload.lengths": {
            "kind": "lognormal",
            "prompt": {"mean_tokens": 50, "cv": 0.3, "max_tokens": 90},
            "output": {"mean_tokens": 40, "cv": 0.5, "max_tokens": 90},
        },
        "workload.domains": {
            name: {"shared_prefix_tokens": 30, "num_prefixes": 3} for name in ("chat", "code")
        },
        "workload.sessions": {"mean_turns": 2.0},
        "deployment.replicas": 2,
        "deployment.block_size": 4,
        "deployment.kv_cache_tokens": 500,
        "deployment.draft_pool": draft_pool,
        "deployment.failures": {"mean_time_between_s": 1.0, "mean_repair_s": 0.2},
        "speculation.proposer": "draft_model",
    }
    _, requests = run_watched(make_scenario(recorded_profile, **changes), recorded_profile)
    for column in ("num_preemptions", "num_restarts", "cached_tokens", "accepted_tokens"):
        assert requests[column].sum() > 0


def test_a_shared_prefix_lies_in_the_same_blocks_and_outlives_its_first_holder():
    ledger = Ledger.new(3, 12, 4, prefix_runs=[(0, 2)])
    mirror = Mirror(BlockTables(12, 4), "target")

    def read(request, tokens):
        cached = ledger.enter(request, tokens, prefix=(0, 1))
        assert ledger.reserve_prefill(request, tokens - cached)
        mirror.follow(ledger.state, ledger.running)
        ledger.commit(request)
        mirror.follow(ledger.state, ledger.running)
        return cached

    assert read(0, 10) == 0
    first = mirror.tables.blocks(0).tolist()
    assert read(1, 11) == 8
    assert mirror.tables.blocks(1).tolist()[:2] == first[:2]
    assert [mirror.tables.num_holders(content) for content in (0, 1)] == [2, 2]
    assert mirror.tables.num_free == 12 - 4  # two shared, one each of their own
    for request in (0, 1):
        ledger.leave(request)
        mirror.follow(ledger.state, ledger.running)
    assert mirror.tables.num_free == 12
    assert read(2, 9) == 8
    assert mirror.tables.blocks(2).tolist()[:2] == first[:2]


def test_numbers_that_differ_from_the_ledger_raise():
    ledger = Ledger.new(1, 4, 4)
    mirror = Mirror(BlockTables(4, 4), "target")
    ledger.enter(0, 5)
    assert ledger.reserve_prefill(0, 5)
    ledger.state.replicas["free_blocks"] += 1  # a ledger that lost count
    with pytest.raises(RuntimeError, match="free blocks: the ledger counts 3, 2 have numbers"):
        mirror.follow(ledger.state, ledger.running)


def test_more_blocks_than_there_are_raise():
    with pytest.raises(RuntimeError, match="3 more blocks, but 2 are free"):
        BlockTables(2, 4).follow([Holding(0, 3)])
