"""Dominance is an order without circles, and what it strikes out is never shipped."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simcore.planner.choose import NEGLIGIBLE_REGRET, choose
from simcore.planner.pareto import dominates, dominators
from simcore.planner.recommendation import LoadResult, Value, Way
from simcore.planner.ways import SIMPLICITY
from simcore.speculation import Speculation

OBJECTIVES = ("mean_e2e", "latency", "goodput", "device_time")
COUNT = 5

SCORES = st.dictionaries(
    st.sampled_from("abcdefg"),
    st.fixed_dictionaries(
        {
            name: st.lists(
                st.sampled_from([0.5, 0.9, 1.0, 1.01, 1.5]), min_size=COUNT, max_size=COUNT
            ).map(np.array)
            for name in OBJECTIVES
        }
    ),
    min_size=1,
    max_size=6,
)


@given(SCORES)
def test_a_front_is_never_empty_and_its_ways_do_not_dominate_each_other(scores):
    marked = dominators(scores)
    front = [name for name, above in marked.items() if above is None]
    assert front
    assert not any(dominates(scores[a], scores[b]) for a in front for b in front)
    for name, above in marked.items():
        assert above is None or dominates(scores[above], scores[name])


@given(SCORES)
def test_no_two_ways_dominate_each_other(scores):
    assert not any(
        dominates(scores[a], scores[b]) and dominates(scores[b], scores[a])
        for a in scores
        for b in scores
    )


def test_better_by_luck_in_one_replication_dominates_nothing():
    noisy = {name: np.array([0.5, 1.1, 1.0, 1.0, 1.0]) for name in OBJECTIVES}
    plain = {name: np.ones(COUNT) for name in OBJECTIVES}
    assert not dominates(noisy, plain)
    assert dominates({name: np.full(COUNT, 0.99) for name in OBJECTIVES}, plain)


def way(kind: str, label: str, speedup: tuple[float, float], **facts) -> Way:
    middle = sum(speedup) / 2
    result = LoadResult(
        load="planned",
        rate_per_s=1.0,
        mean_e2e_s=1.0,
        speedup=middle,
        speedup_interval=speedup,
        regret=0.0,
        regret_interval=(0.0, 0.0),
    )
    return Way(
        label=label,
        kind=kind,
        speculation=Speculation(),
        served_by=("vllm",),
        objectives={name: Value(mean=1.0, interval=(1.0, 1.0)) for name in OBJECTIVES},
        loads=(result,),
        expected_regret=0.0,
        summary=None,
        **{"is_eligible": True, "keeps_slo_as_off": True, **facts},
    )


WAYS = st.lists(
    st.tuples(
        st.sampled_from(SIMPLICITY[1:]),
        st.floats(0.6, 1.4),
        st.floats(0.0, 0.3),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.lists(st.floats(0.0, 0.4), min_size=COUNT, max_size=COUNT),
    ),
    max_size=6,
)


@given(WAYS)
def test_what_ships_is_on_the_front_eligible_surely_faster_and_the_simplest_of_its_equals(drawn):
    ways = [way("off", "off", (1.0, 1.0))]
    regrets = {"off": np.full(COUNT, 0.5)}
    for number, (kind, middle, half, eligible, keeps, dominated, regret) in enumerate(drawn):
        label = f"way {number}"
        ways.append(
            way(
                kind,
                label,
                (middle - half, middle + half),
                is_eligible=eligible,
                keeps_slo_as_off=keeps,
                dominated_by="off" if dominated else None,
            )
        )
        regrets[label] = np.array(regret)
    found = choose(tuple(ways), regrets)
    shipped = next(each for each in ways if each.label == found.label)
    paying = [
        each
        for each in ways[1:]
        if each.is_eligible
        and each.keeps_slo_as_off
        and each.dominated_by is None
        and each.at("planned").speedup_interval[0] > 1.0
    ]
    assert (shipped in paying) if paying else (shipped.kind == "off")
    if paying:
        least = min(float(regrets[each.label].mean()) for each in paying)
        as_good = [
            each
            for each in paying
            if float(regrets[each.label].mean()) - least <= NEGLIGIBLE_REGRET
        ]
        simplest = min(SIMPLICITY.index(each.kind) for each in as_good)
        assert SIMPLICITY.index(shipped.kind) <= simplest
        alike = [each.label for each in paying if each.kind == shipped.kind]
        assert regrets[shipped.label].mean() == min(regrets[each].mean() for each in alike)
        front = {each.label for each in ways[1:] if each.is_eligible and not each.dominated_by}
        assert set(found.equals) <= front - {found.label}
        assert found.is_sure == (not found.equals)


def test_a_way_that_surely_pays_ships_where_what_dominates_it_does_not_surely_pay():
    ways = (
        way("off", "off", (1.0, 1.0)),
        way("fixed", "sure", (1.1, 1.3), dominated_by="unsure"),
        way("tree", "unsure", (0.9, 1.9)),
    )
    regrets = {"off": np.full(COUNT, 0.3), "sure": np.full(COUNT, 0.1), "unsure": np.zeros(COUNT)}
    assert choose(ways, regrets).label == "sure"
    misses = (ways[0], ways[1].model_copy(update={"keeps_slo_as_off": False}), ways[2])
    assert choose(misses, regrets).label == "off"
