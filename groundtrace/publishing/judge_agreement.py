"""Reads from a run's ``judges.json`` how often each judge (a model that assesses texts) is right.

The judges are tested with texts in which a fault was planted (added on purpose), and with texts without planted faults.
"""

from dataclasses import dataclass
from pathlib import Path

from groundtrace.publishing.errors import InspectError
from groundtrace.publishing.reading import read_run_json


@dataclass(frozen=True)
class JudgeRow:
    """Holds how often one judge is right, as the data card shows it.

    Attributes:
        judge: the name of the judge.
        clean: how often the judge was right about texts without planted faults. For example, ``9 of 10 (0.60 to 0.98)``
            states that 9 of 10 verdicts were right. The parentheses hold the 95 % confidence interval of the share of
            right verdicts.
        planted: how often the judge was right about texts with planted faults (faults that were added on purpose), in
            the same form.
        unjudged: the number of texts for which the judge gave no verdict.
    """

    judge: str
    clean: str
    planted: str
    unjudged: int


def judge_rows(staging: Path) -> list[JudgeRow]:
    """Return how often each judge (a model that assesses texts) is right.

    The run tested the judges with texts with and without planted faults (faults that were added on purpose). The
    results are in the file ``judges.json`` in the folder ``staging``. If the run tested no judge, this file does not
    exist, and the list is empty. Raises :class:`groundtrace.publishing.errors.InspectError` for a damaged file.
    """
    file = staging / "judges.json"
    if not file.is_file():
        return []
    judges = read_run_json(file)
    try:
        return [
            JudgeRow(name, _shown(figures["clean"]), _shown(figures["planted"]), int(figures["all"]["unjudged"]))
            for name, figures in judges["judges"].items()
        ]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InspectError(f"{file} is damaged ({type(error).__name__}): repeat the run") from error


def _shown(figures: dict[str, object]) -> str:
    """Return how often a judge was right, as text such as ``9 of 10 (0.60 to 0.98)``.

    In this example, 9 of 10 verdicts were right. The parentheses hold the 95 % confidence interval of the share of
    right verdicts. The result is "none judged" if no text has a verdict.
    """
    match figures:
        case {"judged": int(judged), "agree": int(agree), "interval": [float(low), float(high)]}:
            return f"{agree} of {judged} ({low:.2f} to {high:.2f})"
    return "none judged"
