"""Serve real requests with a real target, and replay the run in the simulator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from calibration.compatibility import (
    Asked,
    Fills,
    IncompatibleError,
    ProposerFacts,
    incompatibilities,
    model_facts,
)
from calibration.contracts.contract import VerificationContract
from calibration.contracts.cut import Stopping
from calibration.contracts.named import chain_contract
from calibration.engine import Engine
from calibration.paged.cache import KVCache
from calibration.randomness import keyed_generator
from calibration.serve.executor import EngineExecutor
from calibration.serve.request import ServedRequest
from calibration.serve.service import Service
from calibration.serve.texts import ServedCycle, Text
from calibration.serve.topologies import full_topology, topologies
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.acceptance.trace import TraceSet
from simcore.records import Records
from simcore.serving.caller_policy import CallerPolicy
from simcore.serving.executor import Executed
from simcore.serving.service import Service as Clocked
from simcore.serving.state import State

NO_PROPOSER = ProposerFacts("none", SiblingRule.TOP_K, Fills.CHAINS)


@dataclass(frozen=True)
class Ran:
    """The records of a run, real or replayed, as simcore keeps them."""

    requests: Records  # REQUEST_DTYPE
    steps: Records  # STEP_DTYPE
    changes: Records  # CHANGE_DTYPE
    cycles: Records  # CYCLE_DTYPE
    replicas: Records  # REPLICA_DTYPE


@dataclass(frozen=True)
class Served:
    """What a real run left."""

    service: Service
    records: Ran
    texts: list[Text]
    cycles: list[ServedCycle]  # prefills that emitted, and cycles, in order of commit
    traces: TraceSet  # what every cycle proposed and accepted, by output position
    step_times: list[Executed]  # empty where the cost law gave them
    plain_reasons: Mapping[int, tuple[str, ...]]  # why a request was not speculated for
    num_failures: int


def serve(
    service: Service,
    contract: VerificationContract,
    *,
    falls_back: bool = False,
    cache: KVCache | None = None,
    policy: CallerPolicy | None = None,
) -> Served:
    """Serve every request to its end, step by step under simcore's scheduler.

    Time stands still while the service is idle; a step takes what it takes on this machine, or
    what `service.law` says. A request that cannot be speculated for is refused before any work,
    or with `falls_back` decoded plainly, its reasons kept. `cache`: to look into afterwards.
    `policy`: asked for the draft length before every step, in place of the scenario's own.
    Raises IncompatibleError, CalibrationError.
    """
    service.check()
    reasons = _reasons(service, contract)
    if reasons and not falls_back:
        raise IncompatibleError(tuple(dict.fromkeys(sum(reasons.values(), ()))))
    _warm_up(service)
    traces = service.new_traces()
    state = service.new_state(traces)
    for request in reasons:
        state.requests["can_speculate"][request] = 0
    cache = cache or new_cache(service)
    proposer = service.proposing.make(cache) if service.proposing is not None else None
    executor = EngineExecutor(
        engine=Engine(service.target.decoder, cache, proposer, service.scenario.sampling),
        texts=[
            _text(service, request, index, contract, is_plain=index in reasons)
            for index, request in enumerate(service.requests)
        ],
        topologies=topologies(service.scenario.speculation),
        traces=traces,
        measures=service.law is None,
    )
    clocked = Clocked(state, executor=executor, records_cycles=True, policy=policy)
    clocked.run_stepwise()
    return Served(
        service=service,
        records=_ran(state, clocked),
        texts=executor.texts,
        cycles=executor.cycles,
        traces=traces,
        step_times=executor.step_times,
        plain_reasons=reasons,
        num_failures=executor.num_failures,
    )


def new_cache(service: Service) -> KVCache:
    """Tensors for the blocks of the service's ledger."""
    budget, decoder = service.budget, service.target.decoder
    draft = service.proposing.draft if service.proposing is not None else None
    return KVCache(
        decoder.shape,
        budget.total_blocks,
        budget.block_size,
        dtype=decoder.dtype,
        device=decoder.device,
        draft=draft.decoder.shape if draft is not None else None,
        draft_blocks=budget.draft_blocks or None,
        draft_block_size=budget.draft_block_size or None,
    )


class RecordedTimes:
    """An executor that draws as the simulator does and takes the times of a real run.

    `priced` keeps what the cost law would have said of every step.
    """

    draws_cycles = True

    def __init__(self, step_times: Sequence[Executed]) -> None:
        self._left = iter(step_times)
        self.priced: list[Executed] = []

    def carry_out(self, state: State, index: int) -> None:
        """Nothing to do."""

    def time(self, state: State, index: int) -> Executed | None:
        """The next recorded time; by the cost law where the run had them from there."""
        step = state.steps[state.replicas[index]["step_row"]]
        self.priced.append(Executed(*(float(step[phase.name]) for phase in fields(Executed))))
        return next(self._left, None)

    def settle(self, state: State, index: int, *, is_committed: bool) -> None:
        """Nothing to keep."""


def replay(served: Served) -> Ran:
    """The run as the simulator tells it, given the run's own acceptance, lengths and step times.

    Equal to the run's records (DESIGN section 6), so that what a prediction gets wrong is cost or
    acceptance. The simulator takes a static tree as proposed whole or not at all; a lookup that
    filled part of one, and lookahead's window, count as such here.
    """
    state = served.service.new_state(served.traces)
    state.requests["output_tokens"] = served.records.requests["output_tokens"]
    state.requests["can_speculate"] = served.records.requests["can_speculate"]
    return _told(state, RecordedTimes(served.step_times))


def told(service: Service, traces: TraceSet, executor: RecordedTimes) -> Ran:
    """The service's requests with given acceptance, each as long as its limit."""
    return _told(service.new_state(traces), executor)


def _told(state: State, executor: RecordedTimes) -> Ran:
    clocked = Clocked(state, executor=executor, records_cycles=True)
    clocked.run_stepwise()
    return _ran(state, clocked)


def _warm_up(service: Service) -> None:
    """Simulate one short request: no measured step is to wait for machine code to be made."""
    first = replace(service.requests[0], max_tokens=min(2, service.requests[0].max_tokens))
    short = replace(service, requests=[first])
    Clocked(short.new_state(short.new_traces()), executor=RecordedTimes([])).run_stepwise()


def _ran(state: State, clocked: Clocked) -> Ran:
    cycles = clocked.cycles
    assert cycles is not None
    return Ran(state.requests, clocked.steps, clocked.changes, cycles, state.replicas)


def _text(
    service: Service,
    request: ServedRequest,
    index: int,
    contract: VerificationContract,
    *,
    is_plain: bool,
) -> Text:
    chosen = request.contract or contract
    return Text(
        prompt_ids=request.prompt_ids,
        transforms=request.transforms,
        contract=chain_contract(request.transforms.sampling) if is_plain else chosen,
        stopping=_stopping(service, request),
        generator=keyed_generator(
            service.target.decoder.device, service.scenario.seed, "request", index
        ),
    )


def _stopping(service: Service, request: ServedRequest) -> Stopping:
    tokenizer = service.target.tokenizer
    return Stopping(
        request.max_tokens,
        service.target.eos_token_ids,
        request.stop_strings,
        tokenizer.decode if tokenizer is not None else None,
    )


def _reasons(service: Service, contract: VerificationContract) -> dict[int, tuple[str, ...]]:
    """Requests that cannot be decoded as asked, and why; no pass is run for it."""
    target, proposing = service.target, service.proposing
    draft = proposing.draft if proposing is not None else None
    facts = model_facts(target), model_facts(draft) if draft is not None else None
    found: dict[int, tuple[str, ...]] = {}
    for index, request in enumerate(service.requests):
        sampling = request.transforms.sampling
        asked = Asked(
            contract=request.contract or contract,
            topology=full_topology(service.scenario.speculation),
            transforms=request.transforms,
            stopping=_stopping(service, request),
            adapter=request.adapter,
        )
        own = proposing.facts(sampling) if proposing is not None else NO_PROPOSER
        reasons = incompatibilities(*facts, own, asked)
        if reasons:
            found[index] = reasons
    return found
