"""The request's transforms are transformers' own, in transformers' order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    PrefixConstrainedLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from calibration.contracts.candidates import Candidates
from calibration.contracts.greedy import GREEDY
from calibration.contracts.judge import judge
from calibration.contracts.recursive_rejection import TOP_K
from calibration.contracts.transforms import Constraint, Transforms
from calibration.errors import CalibrationError
from simcore.profile.schema import Sampling

pytestmark = pytest.mark.torch
VOCAB = 12


def even_after_odd(history) -> list[int]:
    return [token for token in range(VOCAB) if (token + history[-1]) % 2]


def reference(asked: Transforms, history: list[int]) -> LogitsProcessorList:
    """What `generate` would build for these settings."""
    sampling, steps = asked.sampling, LogitsProcessorList()
    if asked.logit_bias:
        bias = {(token,): value for token, value in asked.logit_bias.items()}
        steps.append(SequenceBiasLogitsProcessor(bias))
    if asked.repetition_penalty != 1.0:
        steps.append(RepetitionPenaltyLogitsProcessor(asked.repetition_penalty))
    if asked.constraint is not None:
        steps.append(
            PrefixConstrainedLogitsProcessor(
                lambda _, ids: asked.constraint.allowed(ids.tolist()), 1
            )
        )
    steps.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.top_k:
        steps.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1.0:
        steps.append(TopPLogitsWarper(sampling.top_p))
    if asked.min_p > 0.0:
        steps.append(MinPLogitsWarper(asked.min_p))
    return steps


@given(
    seed=st.integers(0, 10_000),
    temperature=st.floats(0.2, 3.0),
    top_k=st.integers(0, VOCAB + 2),
    top_p=st.floats(0.1, 1.0),
    min_p=st.sampled_from([0.0, 0.05, 0.4]),
    penalty=st.sampled_from([1.0, 0.7, 1.6]),
    bias=st.dictionaries(st.integers(0, VOCAB - 1), st.floats(-4, 4), max_size=3),
    is_constrained=st.booleans(),
)
@settings(derandomize=True, deadline=None, max_examples=150)
def test_distributions_equal_those_of_transformers(
    seed, temperature, top_k, top_p, min_p, penalty, bias, is_constrained
):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(1, VOCAB, generator=generator, dtype=torch.float64) * 3
    history = torch.randint(VOCAB, (6,), generator=generator).tolist()
    asked = Transforms(
        Sampling(temperature=temperature, top_k=top_k, top_p=top_p),
        min_p,
        penalty,
        {token: value for token, value in bias.items() if value},
        Constraint("parity", even_after_odd) if is_constrained else None,
    )
    expected = reference(asked, history)(torch.tensor([history]), logits.clone()).softmax(-1)
    found = asked.probabilities(logits, [history], [even_after_odd(history)])
    assert torch.allclose(found, expected, atol=1e-12)


def test_penalty_and_constraint_read_the_drafted_path_not_the_whole_tree():
    """Context with children A1, B1; A1 -> A2; B1 -> B2, B3: a node sees its ancestry only."""
    seen: list[tuple[int, ...]] = []

    def allowed(history):
        seen.append(tuple(history))
        return range(VOCAB)

    candidates = Candidates((-1, -1, 0, 1, 1), (1, 2, 3, 4, 5))
    asked = Transforms(Sampling(temperature=1.0), constraint=Constraint("any", allowed))
    generator = torch.Generator().manual_seed(0)
    judge(TOP_K, torch.zeros(1, 6, VOCAB), [candidates], [asked], [generator], [[7, 8]])
    assert seen == [
        (7, 8),
        (7, 8, 1),
        (7, 8, 2),
        (7, 8, 1, 3),
        (7, 8, 2, 4),
        (7, 8, 2, 5),
    ]


def test_a_constraint_is_never_asked_about_what_it_forbids():
    def allowed(history):
        assert 5 not in history
        return [1, 2, 3]

    asked = Transforms(Sampling(temperature=1.0), constraint=Constraint("no five", allowed))
    candidates = Candidates((-1, 0, 1), (1, 5, 2))
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        (verdict,) = judge(
            TOP_K, torch.zeros(1, 4, VOCAB), [candidates], [asked], [generator], [[1]]
        )
        assert verdict.accepted <= 1
        assert verdict.next_token in {1, 2, 3}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_where_nothing_is_allowed_no_token_is_invented(temperature):
    asked = Transforms(
        Sampling(temperature=temperature), constraint=Constraint("nothing", lambda _: ())
    )
    for contract in (GREEDY, TOP_K):
        with pytest.raises(CalibrationError, match="no token has any probability"):
            judge(
                contract,
                torch.zeros(1, 1, VOCAB),
                [Candidates((), ())],
                [asked],
                [torch.Generator()],
                [[1]],
            )


def test_transforms_that_read_the_history_cannot_go_without_it():
    asked = Transforms(repetition_penalty=1.2)
    with pytest.raises(ValueError, match="without the committed tokens"):
        judge(GREEDY, torch.zeros(1, 1, VOCAB), [Candidates((), ())], [asked], [torch.Generator()])


@pytest.mark.parametrize("wrong", [{"min_p": 1.5}, {"min_p": -0.1}, {"repetition_penalty": 0.0}])
def test_settings_without_meaning_are_refused(wrong):
    with pytest.raises(CalibrationError, match="expected"):
        Transforms(**wrong)


STATED = Sampling(temperature=0.7, min_p=0.1, repetition_penalty=1.3, logit_bias=((2, -1.0),))


def test_what_the_sampling_states_is_what_is_done_and_is_told_back_whole():
    stated = Transforms(STATED)
    given = Transforms(
        Sampling(temperature=0.7), min_p=0.1, repetition_penalty=1.3, logit_bias={2: -1.0}
    )
    assert stated.identity == given.identity == STATED
    logits, history = torch.randn(1, 6, generator=torch.Generator().manual_seed(0)), [(0, 1)]
    found, expected = (each.probabilities(logits, history) for each in (stated, given))
    assert torch.equal(found, expected)
    bare = Transforms(Sampling(temperature=0.7)).probabilities(logits, history)
    assert not torch.allclose(found, bare)


def test_two_values_for_one_transform_and_a_constraint_by_name_alone_are_refused():
    with pytest.raises(CalibrationError, match="say one"):
        Transforms(STATED, min_p=0.2)
    with pytest.raises(CalibrationError, match="expected that constraint"):
        Transforms(Sampling(constraint="json"))
