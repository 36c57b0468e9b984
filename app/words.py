"""Plain words for the field's terms: labels, tooltips and how numbers are written."""

from typing import Any

from simcore.profile.schema import Contract, Sampling, Source
from simcore.report.metric_words import meaning

SOURCE_COLORS = {
    Source.MEASURED: "green",
    Source.IMPORTED: "blue",
    Source.PUBLISHED: "orange",
    Source.ESTIMATED: "gray",
}
SOURCE_HELP = {
    Source.MEASURED: "Timed and recorded on the machine that the profile names, with raw samples.",
    Source.IMPORTED: "Taken from the metrics of a running engine.",
    Source.PUBLISHED: "Figures of a published study; measure your own machine before you buy.",
    Source.ESTIMATED: "Derived from specification sheets; nothing was measured.",
}
CONTRACT_HELP = {
    Contract.GREEDY_EQUALITY: "The text equals plain greedy decoding, token by token.",
    Contract.EXACT_SAMPLING: "Texts follow the target model's own distribution exactly.",
}

PROFILE = "One target model on one machine: what its steps cost and how drafts fare."
WORKLOAD = "Who asks: how often, how long the prompts and answers are, and what about."
DOMAINS = "Kinds of text that were recorded, drawn alike unless the workload weights them."
PROPOSER = "What guesses the next tokens: a small draft model, an n-gram lookup, an EAGLE head."
SAMPLING = "How the served model picks tokens. Acceptance is known only where it was measured."
GAMMA = (
    "γ, the draft length: how many tokens are guessed ahead in a cycle and then checked in one "
    "pass of the target model. Only measured lengths are offered; 0 switches speculation off."
)
TOPOLOGY = (
    "How candidates hang together. A chain guesses one token after the other. A tree keeps several "
    "guesses at a depth: it costs more to check, and one of them is right more often."
)
WIDTH = "So many chains stand side by side below the root: the best guesses for the next token."
DEPTH = "Serial draft passes, and the most drafts that one cycle can accept."
BUDGET = "Candidates that the target scores for one request in a cycle, the root not counted."
NEEDS_RANKS = (
    "A tree needs traces: the rank of every realised token among the proposer's guesses. This "
    "profile holds survival figures only, so a chain is used. Measure or import traces first."
)
NEEDS_ORDER = (
    "A dynamic tree follows the proposer's confidences, cycle by cycle. These records do not hold "
    "the order in which it would choose its nodes (column dynamic_order), so nothing can be "
    "simulated and a chain is used. The page Speculate gives bounds where ranks were recorded."
)
POLICY = "What changes the draft length while the service runs. Each is the rule of an engine."
POLICIES = {
    "fixed": "Fixed",
    "off": "Off",
    "batch_size_table": "Table by batch size (vLLM)",
    "adaptive_ema": "Adaptive by acceptance (SGLang)",
    "acceptance_gate": "Acceptance gate (TensorRT-LLM)",
    "goodput": "Best expected goodput",
    "memory_pressure": "Shorter under KV pressure",
    "adaptive_verification": "Adaptive verification (vLLM)",
    "oracle": "Oracle (upper bound)",
}
POLICY_HELP = {
    "fixed": "The same drafts in every step.",
    "off": "Plain decoding.",
    "batch_size_table": "The draft length that is fastest by the cost law, for each batch size.",
    "adaptive_ema": "Up and down between lengths by a moving average of accepted drafts.",
    "acceptance_gate": "Off for good once accepted / drafted falls below a bound.",
    "goodput": "The length of the most expected tokens a second for the batch at hand.",
    "memory_pressure": "Fewer drafts while few blocks of KV cache are free.",
    "adaptive_verification": "Full drafts, of which the batch verifies the likeliest.",
    "oracle": "Knows what will be accepted. No engine can do it: the most that is to be gained.",
}
LEAST_SPEEDUP = "Draft only where the cost law promises more than this, at the context in force."
EMA_ALPHA = "Weight of the newest observation in the moving average."
UPDATE_INTERVAL = "Steps between two looks at the average."
CANDIDATES = "Draft lengths that the policy may choose."
THRESHOLD = "Accepted / drafted below which drafting ends. At first: where S is 1 at the batch."
WINDOW = "Steps with drafts that the share is measured over."
HYSTERESIS = "A change needs at least this much."
MILD = "Half the drafts while less than this share of the blocks is free."
SEVERE = "No drafts while less than this share of the blocks is free."
ACCEPTANCE = (
    "How a simulation draws accepted drafts: replay of recorded requests, survival by position, a "
    "fitted model of easy and hard requests, or one α for everything (what is usually assumed)."
)
ACCEPTANCE_MODELS = {
    "auto": "Best that the profile holds",
    "trace": "Replay of recorded requests",
    "positional": "Survival by position",
    "heterogeneous": "Fitted, requests differ",
    "iid": "One α (IID)",
}
PLAIN_FRACTION = "Share of requests whose adapter or grammar rules speculation out."
BREAK_EVEN = "Tokens that one cycle must emit to be as fast as plain decoding: t_cycle / t_1."
EVERY_POSITION = (
    "Counting acceptance at every output position, not where cycles start, counts long accepted "
    "runs too often: each of their positions counts, though only one was a cycle's start."
)
ORDERS = (
    "A draft is tested only if all before it were accepted. So the same rates give more tokens "
    "when the high ones come first, and a mean rate cannot tell."
)
SPREAD = (
    "Independent draws have the same rates by position, but every cycle is drawn alone. Real "
    "requests stay easy or hard, so some are much slower than any such draw."
)
LAG1 = "Correlation of the tokens of consecutive cycles of a request; 0 if cycles forget."
SLOWEST = "Mean tokens a cycle over the slowest 1 % of requests, at least one request."
NOT_MEASURED = (
    "Acceptance at this draft length comes from a fitted model. Simulate it on the page Serve, or "
    "move γ to a measured length."
)
BOUNDS = (
    "Without the recorded order of nodes, ranks and confidences bound what a dynamic tree accepts."
)
LOAD = "Requests that arrive in a second, at the whole service, at random moments (Poisson)."
SESSION_LOAD = (
    "Sessions that begin in a second, at the whole service, at random moments (Poisson). Each asks "
    "several times; everywhere else load counts requests, so every turn."
)
NUM_REQUESTS = "How many requests one simulation serves. More give steadier percentiles."
SEED = "Same seed and profile, same result. Another seed shows how much is chance."
PROMPT_TOKENS = "Mean length of a prompt, in tokens (about three quarters of a word each)."
OUTPUT_TOKENS = "Mean length of an answer, in tokens."
MAX_TOKENS = "No request is longer than this."
CV = "Coefficient of variation: standard deviation divided by mean. 0: all alike."
RECORDED = (
    "Draw prompt length, answer length and acceptance of one recorded request together, instead "
    "of drawing lengths on their own."
)
REPLICAS = "Copies of the engine, each on its own machine; requests are spread over them."
MAX_NUM_SEQS = "Requests that one replica decodes at the same time; the others wait."
TTFT, TPOT, E2E = meaning("ttft"), meaning("tpot"), meaning("e2e")
ITL = "ITL, inter-token latency: the longest gap between two emissions of a request."
PERCENTILE = "For the capacity: at 95, each limit is met by 95 % of the requests."
GOODPUT_FRACTION = "For the capacity: this share of the requests meets every limit at once."
SLO = "Service objective: a request that meets all limits counts as goodput. 0: no limit."
BATCH = "Requests that decode in the same step. A larger batch fills the machine."
CONTEXT = "Tokens that a request holds already (prompt and answer so far); they cost reading time."
EMITTED = (
    "E[Y], the mean acceptance length: tokens that one draft-and-check cycle emits, the target "
    "model's own token included. Plain decoding emits 1."
)
SPEEDUP = (
    "S = E[Y] × time of a plain step / time of a cycle, from the cost law alone: no queue, no "
    "prefill. Above 1 speculation decodes faster."
)
PLAIN_STEP = "Time of one engine step for one request; each step emits one token."
ALPHA = (
    "α: accepted / tested drafts, as one number. IID is the usual simplification that every "
    "position is accepted with this same probability, independently."
)
SURVIVAL = (
    "Share of cycles in which all γ drafts are accepted, with a 95 % interval over the recorded "
    "requests."
)
EVERY_PROPOSER = "All proposers of the profile that were measured under this sampling."
REPLICATIONS = "Repeated simulations with other luck behind every interval. More are steadier."
COMPARED = (
    "All meet the same requests under the same seeds. A saved scenario lends its profile, "
    "deployment and speculation; workload, sampling and objective stay those of the sidebar."
)
AT_LOAD = (
    "Offered: all are sent the same requests. Admitted: each is sent what it takes to serve the "
    "same rate, found by search."
)
PRICE = "Shown as given by you. Where neither you nor the profile states one, there is no cost."
POWER = "Of one device, busy or idle. Where nobody states it, there is no energy."
DEMAND = (
    "The fewest replicas that meet the objective, simulated with the routing of the scenario. The "
    "example day is an invented curve."
)
DAY = "Several rows of one hour give its highest rate; an hour without requests has rate 0."
BY_DIVISION = (
    "By division: so many times the load that was found for one replica. A large fleet shares its "
    "queue and may need fewer; ask for replicas above to have one rate simulated."
)
TRUTH_PAGE = (
    "Engines were calibrated, then predicted, and only then measured; nothing is fitted on what is "
    "shown here. Causes of the errors stand in docs/validation.md."
)
TRUTH = (
    "Error: predicted over measured, less 1. Noise: how far apart two measurements of the same "
    "cell lie."
)
CLOSED_FORM = (
    "Sliders use a closed form. Median and 90th percentile of its error over randomly drawn "
    "scenarios:"
)
CURVE = "Every way at six loads under three seeds each; marks carry their 95 % interval."
CLOSED_LINES = (
    "Lines are the closed form, whose error stands on the page Truth; they end where the service "
    "can carry no more. Marks are simulated."
)
CROSSOVER = (
    "Speed-up of a whole service over the same one without speculation, at every cell of two "
    "inputs. Blue: it pays. Brown: it costs. The outline holds what was measured; hatched cells "
    "lie outside. At the strong line both are the same."
)
MAP = "The first input runs across, the second up; everything else stays as in the sidebar."
MAPS = {
    "load_gamma": "Load × draft length γ",
    "batch_acceptance": "Batch × acceptance",
    "context_gamma": "Length of the prompts × draft length γ",
    "budget_load": "Load × candidates of the best tree",
}
SIMULATED_MAP = "One run off and one on for every cell, under the same requests; takes minutes."
SENSITIVITY = (
    "Every input is moved over its plausible range, all others held. Long bars move the gain most; "
    "a diamond marks a decision that turns within the range."
)
FLIPS = "Where the decision turns in closed form, off and on are simulated so often as a check."
NO_INTERVAL = " Without an interval: the source states none."
TREE_FIGURES = (
    "Replay takes every recorded cycle through the tree. The two products are what planners that "
    "know only rates would say of the same cycles: one rate for every depth and rank, or one for "
    "every rank. SGLang's settings are the smallest that can choose this tree."
)
LOOKUP_TREE = (
    "Second guesses were never taken: a lookup has one guess for a position. A chain of the same "
    "depth emits as much and has fewer candidates to check; trees are for draft models."
)
IDLE_TREE = (
    "Second guesses were never taken in these recordings. A chain of the same depth emits as much "
    "and has fewer candidates to check."
)
PLAN_OF_OTHER_INPUTS = (
    "The inputs have changed since this plan: everything below is of the inputs it was made with. "
    "Make the plan again on the page Decide to hand over what the sidebar says now."
)
ONE_RUN = (
    "One run each under one seed, so without intervals: the pages Compare and Decide repeat it and "
    "give them."
)
CHANGES = (
    "Latencies: left of zero is better. Goodput, throughput and output rate: right is better. A "
    "hollow mark cannot be told from zero."
)
NO_PLAN = "There is no plan in this visit yet. A plan compares, decides, and becomes the report."
KEEP = "Kept results are seen by everybody who uses this dashboard; they survive restarts."
ONLY_NUMBERS = (
    "Only the numbers of this run were kept. Open its scenario and press Simulate: the same seed "
    "and profile give the same run, with its pictures."
)
IMPORT_FILES = (
    "Text or Parquet files as the engine or the load generator wrote them. Nothing in them is "
    "executed; files over 20 MB are refused."
)
TRACE_COLUMN = "Only for acceptance traces: the name of the column or key that holds the lists."
SAME_TARGET = (
    "Acceptance holds for one target model. Engines serve under names of the operator's choice; "
    "say here that it is the same model in the same coding."
)
IMPORTED_PROFILE = (
    "The profile in force plus the import, under this name, for this visit only. Download it to "
    "keep it."
)
WITHOUT_TIMES = (
    "Takes how drafts fared and leaves the step times of these files aside: the cost law stays the "
    "profile's own."
)
NOTHING_TO_USE = (
    "These files hold nothing that can be stored: neither counts of drafts nor step times. They "
    "change no number here."
)
OWN_PROFILE = (
    "This profile lasts until the page is loaded anew, and no link carries it. Download it; opened "
    "below (Open a profile of your own) after a link that names it, the link's view comes back."
)
REPLACE_RECORDS = "Take the place of a record of the same proposer, domain and sampling."
WHOLE_PROFILE = (
    "A zip of a profile's folder, as `python -m calibration measure` writes it or this page hands "
    "it out; or its profile.json with its Parquet tables. Read as data only; at most 20 MB a file."
)
RESIDUALS = (
    "The grey band is ± 10 %. Residuals are of the samples that the law was fitted to; the error "
    "on samples that a fit did not see stands under Provenance."
)


def sampling_label(sampling: Sampling) -> str:
    """Temperature and cuts, in a few words."""
    if sampling.temperature == 0.0:
        parts = ["greedy (temperature 0)"]
    else:
        parts = [f"temperature {sampling.temperature:g}"]
    parts += [f"top-k {sampling.top_k}"] if sampling.top_k else []
    parts += [f"top-p {sampling.top_p:g}"] if sampling.top_p < 1.0 else []
    parts += [sampling.further] if sampling.further else []
    return ", ".join(parts)


def origin_line(origin: dict[str, Any], is_simulated: bool = True) -> str:
    """Where a result comes from, in one line."""
    how = "Simulated" if is_simulated else "In closed form"
    parts = [
        f"{how} from profile {origin['profile']} ({origin['profile_source']}, "
        f"sha256 {origin['profile_sha256'][:12]})",
        f"contract {origin['contract'].replace('_', ' ')}",
        f"temperature {origin['sampling']['temperature']:g}",
        f"seed {origin['seed']}",
        f"specplan {origin['specplan_version']}",
    ]
    if "acceptance_model" in origin:
        parts.insert(3, f"acceptance model {origin['acceptance_model']}")
    return "; ".join(parts) + "."
