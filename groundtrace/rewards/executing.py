"""Executes the code of a trajectory again, on the image and on changed images, and compares the outputs.

A trajectory is a response in several turns with code, and a call is one execution of a turn's code. The comparison
shows which objects each call looked at. A call looked at an object if its output depends on the object, or if it draws
a mark on the object. :mod:`groundtrace.rewards.pretence` describes the runs and the comparison. Each run executes all
calls in order in a fresh sandbox session, so that a later call finds the variables of an earlier one.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from groundtrace.grading.responses.operations import shows_nothing_but_constants
from groundtrace.grading.responses.response import parse_response
from groundtrace.grading.responses.turns import Turn
from groundtrace.rewards.hardcoded import is_hardcoded, is_uncalculated, with_next_number, with_other_numbers
from groundtrace.rewards.marks import Groups, Pixels
from groundtrace.rewards.pretence import (
    IDLE,
    IGNORES_OBJECTS,
    SHOWS_ALL,
    TOLD,
    UNUSED,
    CallOutputs,
    Output,
    groups_of,
    looked_at,
    nudged,
    pretence,
    without_objects,
)
from groundtrace.rewards.selectivity import VisibleChanges, erased_elsewhere, patterned_elsewhere, selectivity
from groundtrace.rewards.trajectory import Execution
from groundtrace.rewards.trajectory_checks import has_answer, unused_results
from groundtrace.sandbox import Observation, Sandbox, SandboxLost
from groundtrace.schemas.geometry import Box
from groundtrace.vision.overlay import encode_png

_ENDED = ("timeout", "memory", "killed")


@dataclass(frozen=True, eq=False)
class Executed:
    """Holds what is known about one call (one execution of a turn's code).

    ``observation`` is the output of the call on the unchanged image. ``execution`` is the result of comparing the
    call's runs on the unchanged image and on changed images.
    """

    observation: Observation
    execution: Execution


async def executions(
    turns: Sequence[Turn],
    images: Sequence[Pixels],
    boxes: Sequence[Box],
    sandbox: Sandbox,
    computes: bool = False,
    rewarded: bool = False,
) -> tuple[Executed | None, ...]:
    """Execute the code of each turn, also on changed images, and return the results; None for a turn without code.

    The turns are those of a trajectory, which is a response in several turns with code. A call is one execution of the
    code of a turn. The result of a turn holds the output of its code, and the objects that the code looked at. Code
    looked at an object in two cases: its output changes if the object is removed from the image, or its output has a
    mark on the object.

    Args:
        turns: the turns of the trajectory.
        images: the question's images, upright, as RGB uint8 (H, W, 3).
        boxes: the objects that the question is about, in pixels, with the index of their image; () if unknown.
        sandbox: the sandbox that runs the code.
        computes: whether calculation alone can answer the question. If so, the code need not use an image.
        rewarded: whether the calls will be rewarded. If so, and the objects are known, two more runs measure the
            selectivity of the calls: how much more their outputs show these objects than the rest of the image.

    Raises:
        groundtrace.sandbox.errors.SandboxLost: if a run could not be completed, or if a call that was not stopped in
            the first run was stopped in a later run (for example, at its time limit). The outputs of these two runs
            cannot be compared.
    """
    codes = [turn.code for turn in turns if turn.code]
    if not codes:
        return (None,) * len(turns)
    groups = groups_of(boxes)
    without = [_changed(images, _without if group else without_objects, group) for group in groups]
    ways = (erased_elsewhere, patterned_elsewhere) if rewarded and boxes else ()
    elsewhere = [_changed(images, way, boxes) for way in ways]
    ran = (images, images, _changed(images, nudged, boxes), *without, *elsewhere)
    runs = await asyncio.gather(*(observed(codes, each, sandbox) for each in ran))
    _check_ran(runs)
    changes = VisibleChanges.between(images, without, elsewhere) if elsewhere else None
    judged = _judged(codes, runs, images[0], groups, computes, changes)
    if not all(call.execution.pretence for call in judged):
        changed = _with_other_constants(codes, _answer_of(turns), computes)
        altered = await asyncio.gather(*(observed(each, images, sandbox) for each in changed))
        on_objects = runs[: 3 + len(groups)]
        judged = _without_hardcoded(judged, _answer_of(turns), _outputs(on_objects), altered, computes)
    found = iter(judged)
    called = [next(found) if turn.code else None for turn in turns]
    unused = unused_results(with_status(turns, called))
    return tuple(_without_use(call) if index in unused else call for index, call in enumerate(called))


def with_status(turns: Sequence[Turn], found: Sequence[Executed | None]) -> tuple[Turn, ...]:
    """Return copies of the turns in which each turn with code has the status of its execution, such as ``ok``.

    ``found`` holds, for each turn, the output and the checks of its executed code (:func:`executions`); None for a turn
    without code, which is not changed.
    """
    pairs = zip(turns, found, strict=True)
    return tuple(turn if call is None else replace(turn, status=call.observation.status) for turn, call in pairs)


def is_step(index: int, turns: Sequence[Turn], found: Sequence[Executed | None]) -> bool:
    """Return whether the code of a turn only prepares later code.

    For example, honest code may first print the size of the image, or try a threshold that finds nothing. The result is
    True if all of these conditions are true:

    - The output of the code does not depend on the objects that the question is about, and does not contain the answer.
    - The code shows no image.
    - A later turn uses the text that this code printed, or a name that this code defines.
    - The code of a later turn succeeds: it ends well, and does not only pretend to use the image.

    ``index`` is the index of the turn in ``turns``. ``turns`` must have the status of their code (:func:`with_status`),
    and ``found`` holds, for each turn, the output and the checks of its executed code (:func:`executions`).
    """
    call, turn = found[index], turns[index]
    if call is None or call.execution.pretence != IGNORES_OBJECTS or turn.images:
        return False
    looks_later = any(later is not None and later.execution.succeeded for later in found[index + 1 :])
    return looks_later and not has_answer(turn.output, turns) and index not in unused_results(turns)


def overlooked(boxes: Sequence[Box], found: Sequence[Executed | None]) -> int:
    """Return the number of object groups that no successful execution of code looked at; 0 if ``boxes`` is empty.

    ``boxes`` are the boxes of the question's objects, and :func:`groundtrace.rewards.pretence.groups_of` divides them
    into groups of neighbours. An execution looked at a group if its output depends on the group's objects, or if it
    draws a mark on one of them. ``found`` holds one execution for each turn, with its output and its checks; None for a
    turn without code.
    """
    executed = [call.execution for call in found if call is not None and call.execution.succeeded]
    seen = frozenset[int]().union(*(each.looked_at for each in executed))
    return len(groups_of(boxes)) - len(seen) if boxes else 0


def _check_ran(runs: Sequence[Sequence[Observation]]) -> None:
    """Raise SandboxLost if a call was stopped in a later run, and was not stopped in the first run.

    There are two possible reasons: the machine was too busy, or the code behaves differently on a changed image. In
    both cases the outputs of the runs cannot be compared.
    """
    for calls in zip(*runs, strict=True):
        ended = next((call for call in calls if call.status in _ENDED), None)
        if ended is not None and calls[0].status not in _ENDED:
            raise SandboxLost(
                f"when the code was executed again to compare its results, a call ended with {ended.status} "
                f"({ended.error}): use a machine with fewer busy processes, or raise sandbox.call_timeout_s"
            )


def _without_use(call: Executed | None) -> Executed | None:
    return None if call is None else _failed(call, UNUSED)


def _failed(call: Executed, reason: str) -> Executed:
    """Return a copy of the call that is marked as a pretence for this reason.

    A pretence is a call that only pretends to look at the image. A call that is already marked is returned unchanged.
    """
    return call if call.execution.pretence else replace(call, execution=Execution(call.execution.ended_well, reason))


def _answer_of(turns: Sequence[Turn]) -> str:
    return (parse_response(turns[-1].text).answer or "").strip()


def _with_other_constants(codes: Sequence[str], answer: str, computes: bool) -> list[list[str]]:
    """Return changed copies of the codes of a trajectory: one list of codes for each further run of the trajectory.

    A trajectory is a response in several turns with code. In the first list, each constant that is the answer is
    replaced by the next number, for example 5 by 6. If the codes have no such constant, the result is empty. If
    ``computes`` is True, two more lists follow, in which all other numbers except 0 and 1 are changed
    (:mod:`groundtrace.rewards.hardcoded`).
    """
    changed = [with_next_number(code, answer) for code in codes]
    if changed == list(codes):
        return []
    others = zip(*(with_other_numbers(code, answer) for code in codes), strict=True) if computes else ()
    return [changed, *map(list, others)]


def _without_hardcoded(
    judged: list[Executed],
    answer: str,
    outputs: Sequence[Sequence[Output]],
    altered: Sequence[Sequence[Observation]],
    computes: bool,
) -> list[Executed]:
    """Return the calls; a call is marked as a pretence if the answer that it prints was written into its code.

    A call is one execution of code. A pretence is a call that only pretends to look at the image.

    Args:
        judged: The calls.
        answer: The final answer of the response.
        outputs: For each call, the outputs of its unchanged code. The code was executed twice on the question's images,
            once on images with a few pixels changed, and once for each group of objects on images without this group.
        altered: The outputs of changed code on the question's images (:func:`_with_other_constants`), for each run. In
            the code of the first run, each constant that is the answer was replaced by the next number, for example 5
            by 6. If a call then prints 6 instead of 5, the answer was written into its code, and the call is marked
            (:mod:`groundtrace.rewards.hardcoded`). If ``computes`` is True, there are further runs. In their code, all
            numbers except the answer, 0 and 1 were changed. If ``altered`` is empty, no call is marked.
        computes: Whether calculation alone can answer the question. If so, honest code may contain the answer as one of
            the numbers of its calculation. A call is then marked only if two more conditions are true: no earlier call
            printed the answer, and the call still prints the answer in the further runs of ``altered``.
    """
    if not altered:
        return judged
    found, earlier = list[Executed](), list[Output]()
    for call, runs, (shown, _, _, *without) in zip(judged, zip(*altered, strict=True), outputs, strict=True):
        changed, *others = map(_output, runs)
        if computes:
            is_pretence = is_uncalculated(answer, shown, changed, others, earlier)
        else:
            is_pretence = runs[0].status == "ok" and is_hardcoded(answer, shown, changed, without)
        found.append(_failed(call, TOLD) if is_pretence else call)
        earlier.append(shown)
    return found


def _outputs(runs: Sequence[Sequence[Observation]]) -> list[list[Output]]:
    """Return, for each call (execution of a turn's code), its outputs in all runs."""
    return [[_output(each) for each in calls] for calls in zip(*runs, strict=True)]


def _output(observation: Observation) -> Output:
    return Output(observation.text, observation.images)


async def observed(codes: Sequence[str], images: Sequence[Pixels], sandbox: Sandbox) -> list[Observation]:
    """Run the codes in order in a fresh sandbox session with these images, and return the output of each code.

    ``codes`` are the programs in the turns of one response; a later one finds the variables of the earlier ones.
    """
    session = await sandbox.open_async([encode_png(image) for image in images])
    try:
        return [await session.run_async(code) for code in codes]
    finally:
        await asyncio.to_thread(session.close)


def _judged(
    codes: Sequence[str],
    runs: Sequence[Sequence[Observation]],
    original: Pixels,
    groups: Groups,
    computes: bool,
    changes: VisibleChanges | None,
) -> list[Executed]:
    """Compare the runs of a trajectory's code call by call, and return the result of each call.

    A call is one execution of a turn's code. Each run executed all calls, and holds their observations (outputs).

    Args:
        codes: the code of each call.
        runs: the runs, in this order: two on the question's images; one on images with a few pixels changed; for each
            group of objects, one on the images without this group. If ``changes`` is not None, the selectivity runs
            follow. In these runs, the images are changed only outside the objects. They measure the selectivity of a
            call: how much more its output shows the objects than the rest of the image.
        original: the question's first image.
        groups: the question's objects, in groups of neighbours.
        computes: whether calculation alone can answer the question. If so, the code need not use an image.
        changes: how much the images were changed, for the runs without the objects and for the selectivity runs; None
            if there are no selectivity runs.
    """
    found, earlier = list[Executed](), list[Output]()
    for code, call, (shown, again, changed, *others) in zip(codes, runs[0], _outputs(runs), strict=True):
        without, elsewhere = others[: len(groups)], others[len(groups) :]
        outputs = CallOutputs(shown, again, changed, tuple(without))
        idle = IDLE if shows_nothing_but_constants(code) else ""
        reason = idle or pretence(outputs, original, groups, earlier, computes)
        seen = frozenset[int]() if reason else looked_at(outputs, original, groups)
        share = selectivity(outputs, elsewhere, original, groups, changes) if changes and seen else 1.0
        is_overview = changes is not None and _is_overview(reason, shown, elsewhere, original)
        is_ok = call.status == "ok"
        found.append(Executed(call, Execution(is_ok, reason, seen, share, is_ok and is_overview)))
        earlier.append(shown)
    return found


def _is_overview(reason: str, shown: Output, elsewhere: Sequence[Output], original: Pixels) -> bool:
    """Return whether a call only gives an overview: it shows only the whole unchanged image, or prints a fixed text.

    A call is the code of one turn. ``reason`` is the reason why the call did not look at the question's objects. The
    call is an overview in two cases:

    - The reason is :data:`SHOWS_ALL`, and each image in the output equals ``original``.
    - The reason is :data:`IGNORES_OBJECTS`, the output has no image, and the text is fixed: ``shown`` and all of
      ``elsewhere`` have the same text.

    ``shown`` is the call's output for the image ``original``. ``elsewhere`` are the call's outputs for copies of this
    image that were changed only outside the question's objects.
    """
    if reason == IGNORES_OBJECTS:
        return not shown.images and all(map(shown.is_same, elsewhere))
    return reason == SHOWS_ALL and all(np.array_equal(image, original) for image in shown.images)


def _changed(
    images: Sequence[Pixels], change: Callable[[Pixels, Sequence[Box]], Pixels], boxes: Sequence[Box]
) -> list[Pixels]:
    """Call ``change`` with each image and the boxes in this image, and return the results."""
    return [change(image, [box for box in boxes if box.media_index == index]) for index, image in enumerate(images)]


def _without(image: Pixels, boxes: Sequence[Box]) -> Pixels:
    """Return the image without the objects in ``boxes``; the image itself if ``boxes`` is empty."""
    return without_objects(image, boxes) if boxes else image
