"""``glassformer verify-resume``: kills and resumes a real run and compares it with an unbroken one."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from glassformer.cli.console import out, print_result, watching
from glassformer.cli.options import Json, Plugin, RecipeArgument, Set, changes_of
from glassformer.foundation.errors import CheckFailed


def command(
    recipe: RecipeArgument,
    set_: Set = None,
    kills: Annotated[int, Option(min=1, help="How many times each test run is killed (SIGKILL) and resumed.")] = 2,
    times: Annotated[int, Option(min=1, help="Number of test runs.")] = 1,
    seed: Annotated[int, Option(help="Seed for the random kill steps.")] = 0,
    processes: Annotated[int, Option(metavar="N", min=1, help="Train on N processes; one is killed.")] = 1,
    resume_with: Annotated[str, Option(metavar="N,N,...", help="Processes that the killed run goes on with, in turn.")] = "",
    plugin: Plugin = None,
    json: Json = False,
) -> None:
    """Test that a killed and resumed run ends bit-identical. Kills real runs of your recipe and compares the weights."""
    from glassformer.checking.verify_resume import verify_resume
    from glassformer.training.parallel.launch import number_of_processes

    numbers = [number_of_processes(one.strip()) for one in resume_with.split(",") if one.strip()]
    with watching() as watch:
        proof = verify_resume(
            recipe,
            set=changes_of(set_),
            plugins=plugin or (),
            kills=kills,
            times=times,
            seed=seed,
            processes=number_of_processes(processes),
            resume_with=numbers,
            watch=watch,
        )
    print_result(proof.to_dict(), "\n".join(f"{name}  sha256 {digest}" for name, digest in proof.unbroken.items()), json=json)
    if not proof.same:
        raise CheckFailed("A resumed run ended in other bits than the unbroken one; see the list above.")
    if not json:
        out().print(f"Same bits: {times} broken and resumed run(s) equal the unbroken one.")
