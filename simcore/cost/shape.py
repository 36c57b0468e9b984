"""What the law needs to know of one step."""

from typing import NamedTuple


class StepShape(NamedTuple):
    """What one step holds, over its whole batch; fractions stand for averages."""

    num_requests: float  # decoding and prefilling
    num_decoding: float
    gamma: float  # longest planned draft of the step: serial draft passes
    proposed_tokens: float  # candidates that the proposer makes, all requests
    verified_tokens: float  # of these, those that the target scores
    query_tokens: float  # decode queries and prefill tokens
    plain_context_tokens: float  # KV read by requests with one query token
    verify_context_tokens: float  # KV read by requests with several, and by prefill chunks
    prefill_tokens: float  # of the query tokens, those of prefill
    lagging_tokens: float  # emitted without drafts by requests that draft now: no draft KV yet
    # Attention where a request has several queries: Σ queries · (context before + half of them)
    attention_pairs: float = 0.0
    scheme: float = 0.0  # which proposer and topology, where several are loaded
