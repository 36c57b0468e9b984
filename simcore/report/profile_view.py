"""Where a plan's numbers come from, as tables: the profile and the scenario."""

from simcore.planner.document import Plan
from simcore.report.slo_words import slo_words
from simcore.report.table import Table
from simcore.report.units import NOTHING, count, giga
from simcore.report.workload_words import Rows, workload_rows
from simcore.scenario import Deployment, Scenario, Workload


def profile_table(plan: Plan) -> Table:
    """Identity and provenance of the profile, its source tag first."""
    card = plan.profile
    target, hardware, engine = card.identity.target, card.identity.hardware, card.identity.engine
    said = card.provenance
    rows: Rows = [
        ("source", f"{card.source}: {card.name}"),
        ("title", card.title),
        ("sha256 of profile.json", card.sha256),
        ("target", f"{target.name}, {giga(target.num_parameters, 'B')} parameters"),
        ("revision", target.revision),
        ("numbers", f"{target.dtype}, quantization {target.quantization}"),
        ("tokenizer", f"{target.tokenizer}, {count(target.vocab_size, 'tokens')}"),
        ("weights in memory", giga(target.weight_bytes)),
        ("KV cache", count(target.kv_bytes_per_token, "bytes a token")),
        ("hardware", _hardware(plan)),
        ("engine", f"{engine.name} {engine.version}"),
        ("engine settings", _pairs(engine.settings)),
        ("tensor parallel", count(card.identity.tensor_parallel, "devices")),
        ("device memory", giga(hardware.memory_bytes)),
        ("date", said.date),
        ("command", said.command or NOTHING),
        ("versions", _pairs(said.versions)),
        ("seeds", _pairs(said.seeds)),
        ("samples", _pairs(said.sample_counts)),
        *(("citation", text) for text in said.citations),
        *(("note", text) for text in said.notes),
    ]
    return Table("The profile", ("field", "value"), tuple(rows), "")


def scenario_table(plan: Plan) -> Table:
    """The workload, the deployment and the objective that the plan is for."""
    total = sum(plan.candidates[0].summary.num_requests.values())
    name, *asked, seed = scenario_rows(plan.scenario, total)
    sha256 = ("sha256", str(plan.origin.get("scenario_sha256", NOTHING)))
    rows = (name, sha256, *asked, ("acceptance model", _acceptance_model(plan)), seed)
    return Table("The scenario", ("field", "value"), rows, "")


def scenario_rows(scenario: Scenario, num_requests: int | None = None) -> Rows:
    """What is asked and what serves, from name to seed; `num_requests` as in workload_rows."""
    return [
        ("name", scenario.name),
        ("contract", scenario.contract.value),
        *workload_rows(scenario.workload, num_requests),
        ("domains", _domains(scenario.workload)),
        *_deployment_rows(scenario.deployment),
        ("SLO", ", ".join(slo_words(scenario.slo)) or "none"),
        ("warm-up", f"first {scenario.warmup_fraction:.0%} of requests not counted"),
        ("seed", str(scenario.seed)),
    ]


def _hardware(plan: Plan) -> str:
    hardware = plan.profile.identity.hardware
    threads = f", {count(hardware.threads, 'threads')}" if hardware.threads else ""
    return f"{hardware.device_count} × {hardware.name} ({hardware.device}{threads})"


def _deployment_rows(deployment: Deployment) -> Rows:
    kv = deployment.kv_cache_tokens
    room = "what memory leaves" if kv is None else count(kv, "tokens a replica")
    return [
        ("replicas", count(deployment.replicas, "replicas")),
        ("running requests", f"at most {deployment.max_num_seqs:,} a replica (max_num_seqs)"),
        ("tokens of a step", f"at most {deployment.max_num_batched_tokens:,} tokens"),
        ("KV blocks", count(deployment.block_size, "tokens a block")),
        ("KV room", f"{room}; {deployment.memory_utilization:.0%} of memory used"),
    ]


def _domains(workload: Workload) -> str:
    if not workload.domains:
        return "all alike"
    return _pairs({name: workload.share(name).weight for name in workload.domains})


def _acceptance_model(plan: Plan) -> str:
    found = {str(each.summary.origin.get("acceptance_model", NOTHING)) for each in plan.candidates}
    return ", ".join(sorted(found))


def _pairs(values: dict[str, str] | dict[str, int] | dict[str, float]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items()) or NOTHING
