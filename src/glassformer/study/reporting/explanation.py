"""One judged change -> its headline, its sentence with caveats, and its details. Decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from glassformer.study.inference.corrections import Looks
from glassformer.study.inference.evidence import Evidence, upper_bound
from glassformer.study.planning.power import FEWEST_SEEDS, MORE_TUNING
from glassformer.study.reporting.wording import EXPLORATORY, interval_text, listed, number, p_value

MUCH_FROM_DOCUMENTS = 0.25
"""Above this fraction of the variance, the sentence itself mentions the documents."""

MANY = 50
"""More seeds than anybody trains: then the sentence says how to need fewer."""


@dataclass(frozen=True)
class Explanation:
    """One judged change and everything its sentences mention."""

    name: str
    word: str
    evidence: Evidence
    looks: Looks
    look: int
    effect: float
    alone: Mapping[int, str]
    exploratory: bool
    command: str | None = None
    remarks: tuple[str, ...] = ()
    studies: int = 1
    same_level: float = 0.05

    @property
    def corrected(self) -> str:
        return f"corrected p {p_value(self._p)}"

    @property
    def _p(self) -> float:
        return 1.0 if self.evidence.p_corrected is None else self.evidence.p_corrected

    @property
    def _next_look(self) -> int | None:
        return self.looks.seeds[self.look + 1] if self.look + 1 < len(self.looks.seeds) else None

    def reason(self) -> str:
        """The row of verdict.py that decided, in a few words."""
        if self.word == "same":
            return "the difference is smaller than the margin" + (", though real" if self._p <= self.looks.alpha else "")
        if self.word in ("better", "worse"):
            return self.corrected + (", by more than the margin" if self._beyond_margin() else "")
        if self.evidence.seeds < FEWEST_SEEDS:
            return f"below {FEWEST_SEEDS} seeds we do not decide"
        if self._only_here():
            return f"shown for these {self._units}, not for others"
        if self._too_few_documents():
            return f"the same on these {self._units}, but they are too few to exclude rare badly hurt ones"
        return f"the next look is at {self._next_look} seeds" if self._next_look else self.corrected

    # -- the short sentence ----------------------------------------------------------------------------------------------

    def headline(self) -> str:
        """The result in one or two short sentences."""
        e = self.evidence
        if self.word == "same":
            text = self._same_text()
        elif self.word in ("better", "worse"):
            text = self._found_text()
        elif e.seeds < FEWEST_SEEDS:
            below = f"below {FEWEST_SEEDS} seeds we do not decide"
            text = f"{self.name} is not decided: {below}. So far: {self._measured()}. {self._needed()}"
        elif self._only_here():
            text = self._only_here_text()
        elif self._too_few_documents():
            text = self._too_few_text()
        else:
            text = f"{self.name} is not decided: {e.seeds} seeds cannot tell. {self._what_fits()} {self._what_next()}"
        return f"{EXPLORATORY} {text}" if self.exploratory else text

    def _measured(self) -> str:
        """``loss 2.28 -> 1.88, lower by 0.40``."""
        e = self.evidence
        value, half = e.difference.value, e.difference.half_width
        assert value is not None
        levels = f"{e.metric.name} {number(e.base_value, half)} -> {number(e.value, half)}"
        if value == 0.0:
            return f"{levels}, exactly equal"
        return f"{levels}, {'lower' if value < 0.0 else 'higher'} by {number(abs(value), half)}"

    def _found_text(self) -> str:
        e = self.evidence
        beyond = self._beyond_margin()
        clause = f", by more than your margin of {e.margin:g}" if beyond else ""
        margin = "" if beyond else f"; your margin {e.margin:g}"
        runs = f"in {e.seeds_better if self.word == 'better' else e.seeds - e.seeds_better} of {e.seeds} seeds"
        return (
            f"{self.name} is {self.word}{clause}: {self._measured()} ({interval_text(e.difference)}{margin}), {runs}. "
            f"p {p_value(self._p)}{self._over_changes()}."
        )

    def _over_changes(self) -> str:
        counts = {"changes": self.looks.changes, "looks": len(self.looks.seeds), "studies": self.studies}
        several = [f"{count} {what}" for what, count in counts.items() if count > 1]
        if not several:
            return ""
        return f", corrected for {' and '.join(filter(None, [', '.join(several[:-1]), several[-1]]))}"

    def _same_text(self) -> str:
        e = self.evidence
        percent = f"{100 * (1 - 2 * self.same_level):.3g} %"
        text = (
            f"{self.name} is the same within your margin of {e.margin:g}: {self._measured()} "
            f"({interval_text(e.same_interval, percent)})."
        )
        return text + (" The difference is real, but smaller than the margin." if self._p <= self.looks.alpha else "")

    def _only_here_text(self) -> str:
        e = self.evidence
        here = "better" if e.metric.better(e.difference.value or 0.0) else "worse"
        return (
            f"{self.name} is not decided for {self._others}: on these {e.documents} {self._units} it is {here}, "
            f"{self._measured()} ({interval_text(e.on_this_set)}), but {self._fits()} fits for others. "
            f"{self._more_documents()}"
        )

    def _too_few_text(self) -> str:
        e = self.evidence
        return (
            f"{self.name} is not decided for {self._others}: on these {e.documents} {self._units} it is the same, "
            f"{self._measured()}, but so few cannot exclude rare badly hurt ones that make {e.same_margin:g} on average. "
            f"{e.documents_needed} {self._units} without one would."
        )

    def _what_fits(self) -> str:
        e, fits = self.evidence, self._fits()
        if e.difference.low is not None and e.difference.high is not None and e.difference.low * e.difference.high > 0.0:
            looks = "better" if e.metric.better(e.difference.value or 0.0) else "worse"
            bar = f"p {p_value(self._p)}{self._over_changes()}, is above {self.looks.alpha:g}"
            return f"It looks {looks} ({self._measured()}, {interval_text(e.difference)}), but {bar}."
        return f"{fits[0].upper()}{fits[1:]} fits, and your margin is {e.margin:g}."

    def _fits(self) -> str:
        """``anything from 0.036 better to 0.022 worse``."""
        estimate, half = self.evidence.difference, self.evidence.difference.half_width
        if estimate.low is None or estimate.high is None:
            return "any difference"
        ends = [estimate.low, estimate.high]
        if not self.evidence.metric.lower_is_better:
            ends = [-end for end in reversed(ends)]
        words = [f"{number(abs(end), half)} {'better' if end < 0.0 else 'worse'}" for end in ends]
        return f"anything from {words[0]} to {words[1]}"

    def _needed(self) -> str:
        needed, target = self.evidence.seeds_needed, f"a difference of {self.effect:g}"
        if needed.value is None:
            return f"To find {target}, {needed}."
        return f"Roughly {needed.value} seeds ({needed.low}-{needed.high}) would find {target} with 80 % power."

    def _what_next(self) -> str:
        needed = self.evidence.seeds_next
        if self._next_look:
            return f"The next look is at {self._next_look} of up to {self.looks.seeds[-1]} seeds."
        if needed.value is None:
            return self._more_tuning() if needed.reason == MORE_TUNING else self._more_documents()
        target = f"a difference of {self.effect:g}" + (" (your margin)" if self.effect == self.evidence.margin else "")
        spread = f"({needed.low}-{needed.high}{'; fewer with a larger --margin' if needed.value > MANY else ''})"
        if self.command is None:
            return f"To find {target}, a further study needs roughly {needed.value} fresh seeds {spread}."
        command = self.command.replace("{seeds}", str(needed.value))
        return f"To find {target}, a further study needs roughly {needed.value} seeds {spread}: {command}."

    def _more_tuning(self) -> str:
        share = f"{100 * self.evidence.tuning_share:.0f} % of the variance"
        alone = (
            f"{share} is the noise of tuning (which setting happened to be chosen), by itself too much to find {self.effect:g}"
        )
        return f"{alone}: no number of seeds is enough without more tuning seeds (--tune-seeds)."

    def _more_documents(self) -> str:
        share = f"{100 * self.evidence.document_share:.0f} % of the variance"
        wanted = self.evidence.documents_wanted
        about = "" if wanted is None else f" About {wanted} {self._units} would do: a larger data.validation or data.split."
        reason = f"{share} comes from the {self._units}" if self.evidence.document_share > 0.0 else f"{self._units} are too few"
        return f"{reason[0].upper()}{reason[1:]}: more text is needed, not more seeds.{about}"

    @property
    def _units(self) -> str:
        return "blocks" if self.evidence.blocks else "documents"

    @property
    def _others(self) -> str:
        return "other stretches of this text" if self.evidence.blocks else "other text"

    def _beyond_margin(self) -> bool:
        """Whether the difference is significantly larger than the margin, corrected over all changes and looks."""
        p = self.evidence.p_beyond_corrected
        return p is not None and p <= self.looks.alpha

    def _only_here(self) -> bool:
        p = self.evidence.p_seed_corrected
        return self.word == "not decided" and p is not None and p <= self.looks.alpha

    def _too_few_documents(self) -> bool:
        e = self.evidence
        return self.word == "not decided" and e.seeds >= FEWEST_SEEDS and e.p_same_here < self.same_level <= e.p_same

    # -- the caveats, and the rest ----------------------------------------------------------------------------------------

    def sentence(self) -> str:
        """The headline and its caveats."""
        return " ".join([self.headline(), *self.caveats()])

    def caveats(self) -> list[str]:
        e, sentences = self.evidence, []
        if e.blocks:
            blocks = "1 block" if e.documents == 1 else f"{e.documents} blocks"
            sentences.append(f"Measured on {blocks} of one text, so it holds for other stretches of this text.")
        already_said = self._only_here() or (self.word == "not decided" and e.seeds_needed.value is None)
        if e.document_share > MUCH_FROM_DOCUMENTS and not already_said:
            sentences.append(
                f"{100 * e.document_share:.0f} % of the variance comes from the {self._units}: more text would help most."
            )
        if e.far_off_seeds:
            verb = "lies" if len(e.far_off_seeds) == 1 else "lie"
            who = listed(e.far_off_seeds, "seed").capitalize()
            sentences.append(f"{who} {verb} far off the others, so this is about a typical run only.")
        if self.alone:
            sentences.append(self._alone_text())
        return [*sentences, *self.remarks]

    def details(self) -> list[str]:
        """The statistics behind the verdict, shown on request."""
        e, n = self.evidence, self.evidence.seeds
        sentences = []
        if self._next_look and self.word != "not decided" and e.any_look is not None:
            sentences.append(
                f"Stopped after {n} of up to {self.looks.seeds[-1]} seeds; valid at every look: {interval_text(e.any_look)}."
            )
        if self.word == "not decided" and e.seeds >= FEWEST_SEEDS:
            sentences.append(
                f"Measured: {self._measured()} ({interval_text(e.difference)}), {self.corrected}. {self._needed()}"
            )
        if e.flips is not None:
            sentences.append(
                f"{e.seeds_better} of {n} seeds better; sign-flip p {p_value(e.flips.p)} "
                f"({n} seeds cannot give less than {e.flips.floor:.2g})."
            )
        if e.base_runs is not None:
            sentences.append(f"{n} runs of the change against {e.base_runs} kept runs of the baseline, without pairs (Welch).")
        share = f"{self._units} make {100 * e.document_share:.0f} % of the variance"
        sentences.append(f"On this set alone: {interval_text(e.on_this_set)}; {share}.")
        if e.noise_floor is not None:
            pairs = "" if e.correlation is None else f"; correlation of baseline and change over seeds: {e.correlation:.2f}"
            sentences.append(f"The baseline's own seeds differ by a standard deviation of {number(e.noise_floor)}{pairs}.")
        sentences.append(
            f"0 of {n} runs failed; with so few, a share of failing runs of up to {100 * upper_bound(0, n):.0f} % "
            "cannot be excluded."
        )
        return sentences

    def _alone_text(self) -> str:
        if len(self.alone) == self.evidence.seeds:
            return "With any one seed fewer the verdict would be another."
        parts = []
        for word in dict.fromkeys(self.alone.values()):
            seeds = [seed for seed, other in self.alone.items() if other == word]
            one = listed(seeds, "seed") if len(seeds) == 1 else f"any one of the {listed(seeds, 'seed')}"
            parts.append(f"Without {one} the verdict would be: {word}.")
        return " ".join(parts)
