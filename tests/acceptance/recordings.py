"""Invented recordings: lists whose acceptance law is known."""

import numpy as np

from simcore.acceptance.lists import AcceptanceLists


def lists_of(*requests, per="position", gamma=None, proposed=None, output_tokens=None):
    """Acceptance lists of these accepted drafts."""
    accepted = tuple(np.array(each, dtype=np.int64) for each in requests)
    lengths = np.array([len(each) for each in requests], dtype=np.int64)
    return AcceptanceLists(
        accepted=accepted,
        per=per,
        output_tokens=lengths if output_tokens is None else np.array(output_tokens),
        proposed=None if proposed is None else tuple(np.array(each) for each in proposed),
        gamma=None if gamma is None else np.full(len(requests), gamma),
    )


def text_of_two_kinds(num_requests, length, seed, *, easy=0.95, hard=0.3, stay=0.95, spread=0.0):
    """Positions easy or hard by a Markov chain; accepted is the run of successes from each one.

    `spread` is the standard deviation over requests of the log-odds of acceptance.
    """
    random = np.random.default_rng(seed)
    requests = []
    for shift in spread * random.standard_normal(num_requests):
        odds = np.exp(shift) * np.array([easy / (1 - easy), hard / (1 - hard)])
        changes = random.random(length) > stay
        state = (np.cumsum(changes) + random.integers(2)) % 2
        hit = random.random(length) < (odds / (1 + odds))[state]
        accepted = np.zeros(length, dtype=np.int64)
        run = 0
        for position in range(length - 1, -1, -1):
            run = run + 1 if hit[position] else 0
            accepted[position] = min(run, 60)
        requests.append(accepted)
    return lists_of(*requests)
