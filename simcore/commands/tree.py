"""specplan tree: what a draft tree is worth on a profile's recordings, and which is best."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from simcore.acceptance.topology.sibling_rules import SiblingRule

if TYPE_CHECKING:
    from pydantic import BaseModel

    from simcore.tree_recording import TreeRecording

commands = typer.Typer(no_args_is_help=True, help="Draft trees on recorded requests.")

ProfileOption = Annotated[
    str, typer.Option("--profile", help="a bundled profile's name, or a profile folder")
]
ProposerOption = Annotated[str, typer.Option("--proposer", help="a proposer of the profile")]
TemperatureOption = Annotated[
    float | None, typer.Option("--temperature", help="recordings to use; default: the lowest")
]
DomainOption = Annotated[
    list[str] | None, typer.Option("--domain", help="only these domains; may be repeated")
]
RuleOption = Annotated[
    SiblingRule, typer.Option("--rule", help="how the children of a node are drawn and verified")
]
JsonOption = Annotated[bool, typer.Option("--json", help="print one JSON object on stdout")]


@commands.command(context_settings={"ignore_unknown_options": True})
def show(
    tree: Annotated[
        str,
        typer.Argument(help="WxD (4x3), parents (-1,0,0) or paths ([[0],[0,0]])"),
    ],
    profile: ProfileOption,
    proposer: ProposerOption,
    temperature: TemperatureOption = None,
    domain: DomainOption = None,
    rule: RuleOption = SiblingRule.TOP_K,
    as_json: JsonOption = False,
) -> None:
    """Replay a static tree: survival, tokens a cycle, and what independence gets wrong."""
    from simcore.acceptance.topology.notation import parse_tree
    from simcore.planner.tree_view import view_tree
    from simcore.report.tree_text import tree_text

    parsed = parse_tree(tree)
    view = view_tree(_recording(profile, proposer, temperature, domain), parsed, rule)
    _print(view, tree_text(view), as_json)


@commands.command()
def best(
    profile: ProfileOption,
    proposer: ProposerOption,
    nodes: Annotated[int, typer.Option(help="most candidates, the root not counted")],
    depth: Annotated[int, typer.Option(help="most levels, the root not counted")],
    batch: Annotated[
        int | None, typer.Option(help="choose the size that emits fastest at this batch")
    ] = None,
    context: Annotated[
        int | None, typer.Option(help="context tokens of a request; default: as recorded")
    ] = None,
    temperature: TemperatureOption = None,
    domain: DomainOption = None,
    rule: RuleOption = SiblingRule.TOP_K,
    as_json: JsonOption = False,
) -> None:
    """The best static tree, by Sequoia's programme on measured rates, checked by replay."""
    from simcore.planner.best_tree import best_tree
    from simcore.profile.store import load_profile
    from simcore.report.tree_text import best_tree_text

    found = best_tree(
        load_profile(profile),
        proposer,
        num_nodes=nodes,
        depth=depth,
        batch_size=batch,
        context_tokens=context,
        temperature=temperature,
        domains=tuple(domain or ()),
        rule=rule,
    )
    _print(found, best_tree_text(found), as_json)


@commands.command()
def dynamic(
    profile: ProfileOption,
    proposer: ProposerOption,
    steps: Annotated[int, typer.Option(help="SGLang's num_steps: levels")],
    topk: Annotated[int, typer.Option(help="SGLang's eagle_topk: candidates of a node")],
    num_draft_tokens: Annotated[int, typer.Option(help="SGLang's: nodes verified and the root")],
    temperature: TemperatureOption = None,
    domain: DomainOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tokens a cycle of EAGLE-2's dynamic tree: exact where recorded, else bounds."""
    from simcore.acceptance.topology.sglang_shape import SglangShape
    from simcore.planner.tree_dynamic import view_dynamic
    from simcore.report.tree_text import dynamic_text

    shape = SglangShape(steps, topk, num_draft_tokens).dynamic
    view = view_dynamic(_recording(profile, proposer, temperature, domain), shape)
    _print(view, dynamic_text(view), as_json)


def _recording(
    profile: str, proposer: str, temperature: float | None, domains: list[str] | None
) -> "TreeRecording":
    from simcore.planner.tree_recording import tree_recording
    from simcore.profile.store import load_profile

    return tree_recording(
        load_profile(profile), proposer, temperature=temperature, domains=tuple(domains or ())
    )


def _print(result: "BaseModel", text: str, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(result.model_dump(mode="json"), ensure_ascii=False, allow_nan=False))
    else:
        typer.echo(text)
