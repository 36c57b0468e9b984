"""The batch-size table: thresholds are the crossings of the closed form, rows fall and pay."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from simcore.cost.price import decode_step, law_tables
from simcore.planner.batch_table import TokenTimes, best_rows, off_from, token_times
from simcore.planner.load_estimate import load_basis
from simcore.speculation import BatchSizeTable
from tests.factories import Recording, make_profile, make_scenario

SEATS = 64


def crossing_times(plain_s: float, slope_s: float, emitted: float) -> TokenTimes:
    """Plain steps of a constant time; steps with drafts grow with the batch by `slope_s`."""
    sizes = np.arange(1, SEATS + 1)
    plain = np.full(SEATS, plain_s)
    drafted = (plain_s + slope_s * sizes) / emitted
    return TokenTimes(sizes, (0, 4), np.array([plain, drafted]), plain)


@given(
    emitted=st.floats(1.1, 5.0),
    crossing=st.floats(2.0, SEATS - 2.0).filter(lambda each: abs(each - round(each)) > 0.01),
)
def test_a_threshold_is_the_crossing_of_the_closed_form(emitted, crossing):
    # (t + s n) / E = t at n = t (E - 1) / s.
    slope_s = 0.02 * (emitted - 1.0) / crossing
    times = crossing_times(0.02, slope_s, emitted)
    rows = best_rows(times, SEATS, least_gain=0.0)
    assert [row.num_speculative_tokens for row in rows] == [4, 0]
    assert rows[1].first == int(np.ceil(crossing)) == off_from(times, 4)
    assert rows[0].last == rows[1].first - 1
    assert rows[1].last == SEATS


@given(emitted=st.floats(1.2, 5.0), crossing=st.floats(2.5, SEATS / 2))
def test_a_row_that_gains_little_is_left_out_and_one_that_gains_begins_at_the_crossing(
    emitted, crossing
):
    assume(abs(crossing - round(crossing)) > 0.01)
    times = crossing_times(0.02, 0.02 * (emitted - 1.0) / crossing, emitted)
    most = float((times.of(4) / times.of(0)).max()) - 1.0
    assert len(best_rows(times, SEATS, least_gain=1.01 * most)) == 1
    rows = best_rows(times, SEATS, least_gain=0.5 * most)
    assert rows[1].first == int(np.ceil(crossing))


@given(
    st.lists(st.lists(st.floats(0.5, 2.0), min_size=12, max_size=12), min_size=2, max_size=5).map(
        np.array
    )
)
def test_rows_cover_every_batch_with_falling_lengths_and_engines_accept_them(token_s):
    lengths = tuple(range(len(token_s)))
    times = TokenTimes(np.arange(1, 13), lengths, token_s, token_s[0])
    rows = best_rows(times, 12)
    drafts = [row.num_speculative_tokens for row in rows]
    assert drafts == sorted(set(drafts), reverse=True)
    assert rows[0].first == 1
    assert rows[-1].last == 12
    assert all(a.last + 1 == b.first for a, b in pairwise(rows))
    BatchSizeTable(
        kind="batch_size_table",
        table=tuple((row.first, row.last, row.num_speculative_tokens) for row in rows),
    )


def test_token_times_are_the_cost_law_over_the_emitted_tokens(tmp_path):
    """Every draft accepted with 0.7: E[Y] is (1 - 0.7^5) / 0.3, but for what outputs cut."""
    stored = make_profile(
        tmp_path / "steady",
        Recording(acceptance=0.7, num_requests=40, output_tokens=(200, 240)),
    )
    scenario = make_scenario(
        stored, **{"speculation.proposer": "draft_model", "deployment.max_num_seqs": 28}
    )
    basis = load_basis(stored, scenario)
    times = token_times(scenario, basis, (4,))
    law, emitted = stored.profile.cost, (1.0 - 0.7**5) / 0.3
    prompt = float(basis.requests.prompt_tokens.mean())
    context = prompt + float(basis.requests.output_tokens.mean()) / 2
    for place in (0, 7, 27):
        batch = int(times.batch_sizes[place])
        cycle_s = decode_step(law_tables(law, "draft_model"), batch, context, 4).total_s
        assert times.of(4)[place] == pytest.approx(cycle_s / emitted, rel=0.03)
        plain_s = decode_step(law_tables(law, None), batch, context, 0).total_s
        assert times.plain_s[place] == pytest.approx(plain_s, rel=0.01)
    # 32 tokens a step are free, more are not: the table leaves drafting where the law turns.
    rows = best_rows(times, 28, least_gain=0.0)
    faster = times.of(4) < times.of(0)
    assert [row.num_speculative_tokens for row in rows] == [4, 0]
    assert rows[1].first == int(times.batch_sizes[np.flatnonzero(~faster)[0]])
