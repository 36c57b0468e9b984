"""One request alone in the serving loop, with room for whatever it may hold."""

from calibration.contracts.contract import VerificationContract
from calibration.model.target import LoadedModel
from calibration.serve.proposing import Proposing
from calibration.serve.request import ServedRequest
from calibration.serve.run import Served, serve
from calibration.serve.service import Service
from simcore.acceptance.tree import DraftTree
from simcore.profile.schema import Contract
from simcore.scenario import Deployment, Scenario
from simcore.speculation import Speculation
from simcore.workload_kinds import BatchArrivals, RecordedLengths, Workload

BLOCK_SIZE = 16
CHUNK_TOKENS = 512


def serve_alone(
    target: LoadedModel,
    request: ServedRequest,
    contract: VerificationContract,
    proposing: Proposing | None = None,
    topology: DraftTree | None = None,
    *,
    seed: int = 0,
) -> Served:
    """Decode one request to its end; `proposing` and `topology` both or neither.

    Raises IncompatibleError, CalibrationError before any pass.
    """
    scenario = _scenario(request, proposing, topology, seed)
    return serve(Service(scenario, [request], target, proposing), contract)


def _scenario(
    request: ServedRequest, proposing: Proposing | None, topology: DraftTree | None, seed: int
) -> Scenario:
    sampling = request.transforms.sampling
    speculation, num_nodes = Speculation(), 0
    if topology is not None and proposing is not None:
        num_nodes = topology.num_nodes + proposing.extra_slots(topology, shares_blocks=True)
        speculation = Speculation(
            proposer=proposing.facts(sampling).name,
            num_speculative_tokens=topology.depth,
            tree=topology.parents if topology.width > 1 else None,
        )
    is_greedy = request.transforms.is_greedy
    tokens = len(request.prompt_ids) + request.max_tokens + 2 * (1 + num_nodes) + 2 * BLOCK_SIZE
    draft = proposing.draft if proposing is not None else None
    return Scenario(
        name="alone",
        profile="none",
        contract=Contract.GREEDY_EQUALITY if is_greedy else Contract.EXACT_SAMPLING,
        sampling=sampling,
        workload=Workload(
            arrivals=BatchArrivals(kind="batch"), lengths=RecordedLengths(kind="recorded")
        ),
        deployment=Deployment(
            max_num_seqs=1,
            max_num_batched_tokens=max(CHUNK_TOKENS, 1 + num_nodes),
            block_size=BLOCK_SIZE,
            kv_cache_tokens=tokens * (2 if draft is not None else 1),
        ),
        speculation=speculation,
        seed=seed,
    )
