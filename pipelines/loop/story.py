"""Writes OUT/loop.html: one page with the results so far of each step of ``beam loop``.

OUT is the output folder of the loop. A browser shows the page without a network, and the page contains no script.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from groundtrace.pages.render import duration, render
from groundtrace.pipelines.loop.questions import FOLDER, HELD, Division, read_division
from groundtrace.pipelines.loop.records import StepRecord, is_done, read_record, trained_revision
from groundtrace.pipelines.loop.steps import (
    CURATE,
    EVALUATIONS,
    GRPO,
    LOGS,
    RL,
    SFT,
    Loop,
    Step,
    identities,
    make_steps,
)
from groundtrace.pipelines.loop.stop import Stop
from groundtrace.publishing.reading import read_summary
from groundtrace.rewards.blindness import blind_text
from groundtrace.rewards.rows.records import Records
from groundtrace.rewards.rows.row import TrainingRow, UnusableRow
from groundtrace.schemas import json_lines
from groundtrace.schemas.ordering import unit_hash
from groundtrace.schemas.run_summary import RunSummary
from groundtrace.schemas.safe_files import opened_regular, read_json
from groundtrace.schemas.text import counted
from groundtrace.storage.files import write_atomically
from groundtrace.trainer.evaluation.comparison import (
    ACCURACY,
    POINT_F1,
    Answered,
    Estimate,
    difference,
    estimate,
    estimate_text,
    read_answers,
)
from groundtrace.trainer.evaluation.few_questions import LOOP_REMEDY, few_in_comparison
from groundtrace.trainer.watching.curves import HEIGHT, LEFT, WIDTH, Chart, charts
from groundtrace.trainer.watching.entries import ShownAnswer, ShownQuestion, entries_of
from groundtrace.trainer.watching.records import read_lines, read_metrics

PAGE = "loop.html"
REFRESH_S = 20
SHOWN_CHARTS = ("reward", "accuracy", "point F1", "loss", "entropy", "tokens of a response")
REPORTS = ("report.html", "train.html", "eval.html")
"""The names of the pages that the steps write into their folders."""
MEASURES = ((ACCURACY, "accuracy"), (POINT_F1, "point F1"))
DONE, RUNNING, FAILED, STOPPED, WAITING = "done", "running", "failed", "stopped", "waiting"
ROWS_OF = {SFT: (CURATE, "sft"), GRPO: (RL, "rl")}
"""For each training, the step that makes its rows, and the set of this step that holds them."""
OUTDATED = "an earlier result is out of date"


@dataclass(frozen=True)
class ShownStep:
    """Holds the facts about a step of ``beam loop`` (such as the SFT) that the page loop.html shows.

    Attributes:
        name: The name of the step.
        title: One line on what the step does.
        state: ``done``, ``running``, ``failed``, ``stopped`` or ``waiting``.
        note: A remark if the result in the folder of the step is out of date: it was made with other settings, or from
            an earlier result of another step. Otherwise "".
        took: The duration of the step as text; "" if it is not known.
        report: A link to the page that the step wrote, relative to the loop's page; "" if there is none.
        log: A link to the output of the step's command, relative to the loop's page; "" if there is none.
    """

    name: str
    title: str
    state: str
    note: str
    took: str
    report: str
    log: str


@dataclass(frozen=True)
class Model:
    """Holds the results of one model, or the differences between two models, on the questions of the evaluation.

    ``name`` is the name on the page, such as "SFT" or "SFT − base". ``figures`` maps each measure (``accuracy`` and
    ``point_f1``) to an estimate with its 95 % interval, or to None if the measure has no value for any question.
    """

    name: str
    figures: Mapping[str, Estimate | None]


@dataclass(frozen=True)
class Story:
    """Holds all data that the page of a loop shows.

    Attributes:
        steps: The steps with their states.
        division: How the questions were divided into a part to train on and a part to evaluate on.
        runs: The finished runs: their name, title and summary.
        models: The results of each evaluated model.
        differences: The differences between two evaluated models.
        blind: The accuracy of the best policy that ignores the images; None if it is unknown.
        curves: The charts of each training, with the training's name.
        questions: A few questions of the evaluation with the answers of the models.
        stop: Why the loop stopped before its end; None if it did not stop.
        notes: Sentences that a reader needs to interpret the figures, e.g. that the questions are few.
    """

    steps: Sequence[ShownStep]
    division: Division
    runs: Sequence[tuple[str, str, RunSummary]]
    models: Sequence[Model]
    differences: Sequence[Model]
    blind: float | None
    curves: Sequence[tuple[str, Sequence[Chart]]]
    questions: Sequence[ShownQuestion]
    stop: Stop | None = None
    notes: Sequence[str] = ()


def write_story(loop: Loop, running: str = "", stop: Stop | None = None) -> None:
    """Write the page ``loop.html`` into the folder of a loop. The page shows the results of the loop so far.

    ``loop`` holds the arguments and settings of the loop. ``running`` is the name of the step that is running now; ""
    if no step is running. ``stop`` describes why the loop stopped; None if it did not stop.
    """
    page = story_page(loop, read_story(loop, running, stop), running)
    write_atomically(loop.out / PAGE, page.encode("utf-8", "backslashreplace"))


def story_page(loop: Loop, story: Story, running: str) -> str:
    """Return the page of a loop as HTML.

    ``loop`` holds the arguments and settings of the loop. ``story`` holds the results to show. ``running`` is the name
    of the step that is running now; "" if no step is running. The page of a running loop reloads itself.
    """
    return render(
        "groundtrace.pipelines.loop",
        "loop.html.jinja",
        name=loop.out.name,
        recipe=loop.recipe,
        model=loop.model,
        story=story,
        measures=MEASURES,
        is_running=bool(running),
        blind_text=blind_text,
        questions=entries_of(story.questions),
        size=(WIDTH, HEIGHT),
        left=LEFT,
        shown=estimate_text,
        refresh_s=REFRESH_S,
    )


def read_story(loop: Loop, running: str = "", stop: Stop | None = None) -> Story:
    """Read the results of a loop so far from its folders, and return them.

    ``loop`` holds the arguments and settings of the loop. ``running`` is the name of the step that is running now; ""
    if no step is running. ``stop`` describes why the loop stopped; None if it did not stop. Raises OSError, ValueError
    or KeyError if a file is missing or damaged, and :class:`groundtrace.publishing.reading.InspectError` for a damaged
    run.
    """
    steps = _shown_steps(loop, running, stop)
    begun = {step.name for step in steps if step.state != WAITING and not step.note}
    done = {step.name for step in steps if step.state == DONE}
    division = read_division(loop.out)
    answered = {
        model: read_answers(loop.out / name / "responses.jsonl") for model, name in EVALUATIONS.items() if name in done
    }
    runs = [
        (name, title, read_summary(loop.out / name, checked=False))
        for name, title in ((CURATE, "curation"), (RL, "RL set"))
        if name in done
    ]
    return Story(
        steps,
        division,
        runs,
        [_model(name, each, division) for name, each in answered.items()],
        list(_differences(answered, division)),
        _blind(loop.out, done),
        [(name.upper(), found) for name in (SFT, GRPO) if name in begun and (found := _curves(loop.out / name))],
        _questions(loop.out, answered),
        stop,
        _notes(loop, division, done),
    )


def story_lines(story: Story) -> list[str]:
    """Return the results of a loop's models, and the differences between them, as lines of text for the terminal.
    ``story`` holds these results.
    """
    found = [f"{len(story.division.groups)} held-out questions, 95 % intervals in brackets:"]
    for is_difference, models in ((False, story.models), (True, story.differences)):
        for model in models:
            texts = (f"{title} {estimate_text(model.figures[name], is_difference)}" for name, title in MEASURES)
            found.append(f"  {model.name}: {', '.join(texts)}")
    return [*found, *story.notes]


def few_rows(loop: Loop, name: str, summary: RunSummary) -> str:
    """Return a line that states that a training has fewer rows than one of its steps needs; "" if it has enough.

    ``name`` is the name of the training, ``sft`` or ``grpo``. ``summary`` is that of the run that made the rows.
    """
    side, wanted = ROWS_OF[name][1], loop.per_step.get(name, 0)
    rows = summary.counts.rows(side)
    if rows >= wanted:
        return ""
    key = {SFT: "sft.samples_per_step", GRPO: "grpo.prompts_per_step"}[name]
    return (
        f"The step {name} has only {counted(rows, f'{side.upper()} row')}, and one training step needs {wanted} "
        f"({key}), so its result is hardly reliable: give `beam loop` more questions, with another --output."
    )


def _notes(loop: Loop, division: Division, done: set[str]) -> list[str]:
    """Return warnings: that the evaluation has few questions or few media groups, and that finished runs have few rows.

    A media group consists of the questions that share an image. ``done`` holds the names of the finished steps.
    """
    groups = len(set(division.groups.values()))
    found = few_in_comparison(division.held, groups, LOOP_REMEDY) if done.intersection(EVALUATIONS.values()) else []
    for name, (made, _) in ROWS_OF.items():
        note = few_rows(loop, name, read_summary(loop.out / made, checked=False)) if made in done else ""
        found += [note] if note else []
    return found


def _shown_steps(loop: Loop, running: str, stop: Stop | None) -> list[ShownStep]:
    """Return the steps of a loop with their states.

    A result is current if the step was finished with its present identity, and the results that the step reads are
    current, too. If a step has no result, or only one that is out of date, its state is ``waiting``, unless the step is
    running or the loop stopped at it. The page shows nothing of a result that is out of date.
    """
    made = make_steps(loop, trained_revision(loop.out))
    present = identities(loop, made)
    current, found = set[str](), list[ShownStep]()
    for step in made:
        record = read_record(loop.out, step.name)
        is_fit = record is not None and record.identity == present[step.name] and current.issuperset(step.after)
        stopped = stop is not None and stop.step == step.name
        if is_fit and is_done(step, present[step.name], loop.out) and not stopped and step.name != running:
            current.add(step.name)
            state = DONE
        elif step.name == running:
            state = RUNNING
        elif record is None or not is_fit:
            state = STOPPED if stopped else WAITING
        else:
            state = FAILED if record.exit_code else STOPPED
        found.append(_shown(loop, step, state, record, is_fit))
    return found


def _shown(loop: Loop, step: Step, state: str, record: StepRecord | None, is_fit: bool) -> ShownStep:
    """Return the facts about a step that the page shows.

    ``state`` is the state of the step, such as ``done``. ``record`` holds the times and the exit code of the step; None
    if the step has not begun. ``is_fit`` is False if the result to which ``record`` belongs is out of date.
    """
    if record is None or not is_fit:
        return ShownStep(step.name, step.title, state, OUTDATED if record is not None else "", "", "", "")
    report = next((name for name in REPORTS if (step.folder / name).is_file()), "")
    took = duration(record.wall_s) if record.wall_s else ""
    log = f"{LOGS}/{step.name}.log"
    link = f"{step.name}/{report}" if report else ""
    return ShownStep(step.name, step.title, state, "", took, link, log if (loop.out / log).is_file() else "")


def _model(name: str, answered: Answered, division: Division) -> Model:
    figures = {
        measure: estimate(answered.figures[measure], division.groups, is_share=measure == ACCURACY)
        for measure, _ in MEASURES
    }
    return Model(name, figures)


def _differences(answered: Mapping[str, Answered], division: Division) -> Iterator[Model]:
    names = list(EVALUATIONS)
    for first, second in ((names[0], names[1]), (names[1], names[2]), (names[0], names[2])):
        if first in answered and second in answered:
            pairs = (answered[first].figures, answered[second].figures)
            figures = {
                name: difference(pairs[0][name], pairs[1][name], division.groups, name == ACCURACY)
                for name, _ in MEASURES
            }
            yield Model(f"{second} − {first}", figures)


def _blind(out: Path, done: set[str]) -> float | None:
    """Return the accuracy, on the questions of the evaluation, of the best policy that ignores the images.

    For each answer type, this policy gives one constant answer: the most frequent gold answer. ``out`` is the output
    folder of the loop, and ``done`` holds the names of the finished steps. The numbers are from the report of the first
    finished evaluation.

    Return None if no evaluation has finished, or if its report lacks the accuracy of this policy for one of the answer
    types.
    """
    name = next((name for name in EVALUATIONS.values() if name in done), None)
    if name is None:
        return None
    report = read_json(out / name / "eval.json")
    parts = report["answer_type"].values()
    if any(part["best_constant"] is None for part in parts):
        return None
    return sum(part["best_constant"] * part["questions"] for part in parts) / report["all"]["questions"]


def _curves(folder: Path) -> list[Chart]:
    metrics, validations = read_metrics(folder / "metrics.jsonl"), read_lines(folder / "validation.jsonl")
    found = charts(metrics, validations)[0] if metrics else []
    return [chart for chart in found if chart.title in SHOWN_CHARTS]


def _questions(out: Path, answered: Mapping[str, Answered]) -> list[ShownQuestion]:
    """Return at most three questions of the evaluation, with which the page compares the first and the last model.

    There is at most one question of each of these kinds: only the last evaluated model answers it correctly, only the
    first model does, or neither does. Among the questions of a kind, a hash of the id decides which one is returned.
    """
    if not answered:
        return []
    before, after = next(iter(answered.values())).first, list(answered.values())[-1].first
    chosen: list[str] = []
    for wanted in ((0, 1), (1, 0), (0, 0)):
        fitting = [key for key in before if key in after and (before[key][0], after[key][0]) == wanted]
        chosen += sorted(fitting, key=lambda key: unit_hash(key, 0, "shown"))[:1]
    rows = {row.id: row for row in _rows(out / FOLDER / HELD, set(chosen))}
    return [_asked(rows[key], answered) for key in chosen if key in rows]


def _rows(folder: Path, ids: set[str]) -> Iterator[TrainingRow]:
    """Yield the questions of the folder that have one of the ids. The images of other questions are not read.

    A question that cannot be used is left out, for example if its image files are missing.
    """
    records = Records(folder)
    with opened_regular(folder / "records.jsonl") as stream:
        places = [place for place, (_, line) in enumerate(json_lines.read_lines(stream)) if _id_of(line) in ids]
    for place in places:
        with contextlib.suppress(UnusableRow):
            yield records[place]


def _id_of(line: str) -> str:
    return str(json_lines.parse_object(line).get("id"))


def _asked(row: TrainingRow, answered: Mapping[str, Answered]) -> ShownQuestion:
    asked = row.question
    answers = []
    for name, each in reversed(list(answered.items())):
        if row.id not in each.first:
            continue
        outcome, text, reward = each.first[row.id]
        found = each.figures[POINT_F1].get(row.id)
        answers.append(ShownAnswer(name, text, reward, outcome, () if found is None else ((POINT_F1, found),)))
    images = tuple(data for data, _ in row.images)
    return ShownQuestion(row.id, "", asked.question, asked.answer, asked.choices or (), images, tuple(answers))
