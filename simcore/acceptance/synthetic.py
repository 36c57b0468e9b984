"""Recordings that never ran: what the `heterogeneous` model says a cycle would do at any position.

Each request gets an ease, a walk of the latent chain over its output positions, and one random
number a position; a cycle that starts at i accepts drafts for as long as the numbers of i, i + 1,
.. stay below the acceptance of their state and depth. So one such recording serves every γ, as a
real one does, and two γ meet the same luck.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from simcore.acceptance.chain import EASY, HARD, Chain
from simcore.acceptance.heterogeneous import Parameters, chain_at, length_effect, skewed
from simcore.acceptance.lists import RUNAWAY_TOKENS
from simcore.acceptance.trace import TraceSet
from simcore.errors import ScenarioError

IntArray = NDArray[np.int64]
BYTES_PER_TOKEN = 80  # while a recording is drawn
MOST_BYTES = 8 << 30
FIRST_START = 1  # prefill emits position 0


def synthetic_traces(
    parameters: dict[str, Parameters],
    drafted_misses: dict[str, float],
    domain: IntArray,
    output_tokens: IntArray,
    depth: int,
    seed: int,
) -> TraceSet:
    """One recorded request for each of these, drafts up to `depth`.

    `parameters` by domain name, in the order that `domain` counts; `drafted_misses` is the share of
    starts without acceptance that had a draft: below 1 where a lookup may find nothing.
    """
    size_bytes = BYTES_PER_TOKEN * int(output_tokens.sum())
    if size_bytes > MOST_BYTES:
        raise ScenarioError(
            f"acceptance 'heterogeneous' draws every output position: {output_tokens.sum()} tokens "
            f"would take {size_bytes / 1e9:.0f} GB; use fewer requests, or 'positional'"
        )
    random = np.random.default_rng(seed)
    offset = np.cumsum(output_tokens) - output_tokens
    accepted = np.zeros(int(output_tokens.sum()), dtype=np.int8)
    drafts = np.ones(len(accepted), dtype=np.bool_)
    luck = np.random.default_rng([seed, 1]).random(len(accepted))
    for index, (name, own) in enumerate(parameters.items()):
        requests = np.flatnonzero(domain == index)
        if len(requests):
            rows = _rows(offset[requests], output_tokens[requests])
            accepted[rows] = _accepted(own, output_tokens[requests], depth, random)
            drafts[rows] = (accepted[rows] > 0) | (luck[rows] < drafted_misses[name])
    return TraceSet(
        domain_names=tuple(parameters),
        accepted=accepted,
        proposed=np.where(drafts, depth, 0).astype(np.int8),
        ratio=np.zeros((len(accepted), 0)),
        offset=offset,
        output_tokens=output_tokens,
        prompt_tokens=np.ones_like(output_tokens),
        domain=domain,
        max_gamma=depth,
    )


def _rows(offset: IntArray, tokens: IntArray) -> IntArray:
    """Rows of these requests, request after request."""
    begin = np.repeat(offset - (np.cumsum(tokens) - tokens), tokens)
    return np.asarray(begin + np.arange(int(tokens.sum())))


def _accepted(
    parameters: Parameters, tokens: IntArray, depth: int, random: np.random.Generator
) -> NDArray[np.int8]:
    chain = chain_at(parameters, _ease(parameters, tokens, random))
    request = np.repeat(np.arange(len(tokens)), tokens)
    position = np.arange(len(request)) - np.repeat(np.cumsum(tokens) - tokens, tokens)
    log_odds = np.where(
        _states(chain, tokens, random) == EASY, chain.easy[request], chain.hard[request]
    )
    # A draft for a position passes at depth k while ln k stays below what its luck allows.
    luck = random.random(len(request))
    accepted = np.zeros(len(request), dtype=np.int8)
    going = position >= FIRST_START + parameters.opening_positions
    left = tokens[request] - position
    tested = np.arange(len(request))
    for k in range(1, depth + 1):
        # Drafts past the end are what the text would have gone on with: its last position again.
        place = np.where(left >= k, tested + k - 1, tested + left - 1)
        passes = luck[place] < expit(log_odds[place] - parameters.depth_decay * np.log(k))
        going = going & passes
        accepted += going
    return accepted


def _ease(
    parameters: Parameters, tokens: IntArray, random: np.random.Generator
) -> NDArray[np.float64]:
    """Of each request: drawn, and shifted by its length or by having run into the limit."""
    normal = np.asarray(ndtri(random.random(len(tokens))), dtype=np.float64)
    slope = parameters.length_slope * length_effect(tokens)
    shift = np.where(tokens >= RUNAWAY_TOKENS, parameters.runaway_shift, slope)
    return np.asarray(skewed(normal, parameters.skew) + shift)


def _states(chain: Chain, tokens: IntArray, random: np.random.Generator) -> NDArray[np.int8]:
    """The latent state at every output position, request after request."""
    moves = chain.moves()  # [num_requests, 2, 2]
    leave_easy, leave_hard = moves[:, EASY, HARD], moves[:, HARD, EASY]
    state = random.random(len(tokens)) * (leave_easy + leave_hard) > leave_hard  # True: hard
    offset = np.cumsum(tokens) - tokens
    states = np.zeros(int(tokens.sum()), dtype=np.int8)
    running = np.flatnonzero(tokens > 0)
    for position in range(int(tokens.max())):
        states[offset[running] + position] = np.where(state[running], HARD, EASY)
        luck = random.random(len(running))
        hard = state[running]
        leaves = luck < np.where(hard, leave_hard[running], leave_easy[running])
        state[running] = hard ^ leaves
        running = running[tokens[running] > position + 1]
    return states
