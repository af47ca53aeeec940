"""Provides the function ``verify`` of ``import groundtrace``: check one response against its question and media.

A user's mistake raises :class:`groundtrace.schemas.errors.UserError`.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from groundtrace.config.settings import given_values, settings, settings_from
from groundtrace.embedded.roles import embedded_endpoints, embedded_roles
from groundtrace.grading.answers.registry import ANSWER_TYPES, evident_type
from groundtrace.grading.responses.traces import read_trace
from groundtrace.inference.endpoint import check_access
from groundtrace.inference.runtime import runtime
from groundtrace.inference.session import Session
from groundtrace.inference.settings import EndpointSettings, ModelsSettings
from groundtrace.pipelines.running.arguments import check_arguments
from groundtrace.pipelines.running.settings import RunSettings
from groundtrace.rewards.aggregate import GateSettings
from groundtrace.rewards.case import Context, case_of
from groundtrace.rewards.locating import ObjectMasks, served_by
from groundtrace.rewards.scorer import Scorer
from groundtrace.rewards.scorer_sets import TRACE_SCORERS, configured
from groundtrace.rewards.verifier import verify as verify_case
from groundtrace.schemas.columns import Column, ColumnError
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.records import MediaRef, Question, Trace
from groundtrace.stages.verify_traces import VerifySettings, check_scorers, good_traces, why_rejected
from groundtrace.vision.checked_medium import check_medium
from groundtrace.vision.clips import VideoSettings
from groundtrace.vision.media import MediaStore


@dataclass(frozen=True)
class VerifiedTrace(Trace):
    """Holds a response with its verdicts and its score, and whether a run with the same settings would keep it.

    A verdict is the result of a scorer, i.e. of code that checks one property of a response. ``is_kept`` is True if the
    stage ``verify`` of a run would keep the response. Otherwise ``reason`` is the reason of the rejection, such as
    ``low_grounding``, and ``detail`` explains it. For a kept response, both are "". ``floors`` maps the name of a
    scorer to the minimum value: a response whose verdict has a lower value is rejected. The key ``final`` is for the
    minimum score. Scorers without a minimum are left out. ``not_run`` holds the names of the scorers that did not run,
    because the answer or the form of the response is wrong: ``verdicts`` lacks them.
    """

    is_kept: bool = False
    reason: str = ""
    detail: str = ""
    floors: Mapping[str, float] = field(default_factory=dict, hash=False)
    not_run: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the result of the check as text for a terminal.

        The text has the decision, the score, a line for each verdict (result of a scorer), and the scorers that did not
        run. A scorer is code that checks one property of a response.
        """
        decision = "kept" if self.is_kept else f"rejected: {self.reason}: {self.detail}"
        lines = [decision, self._line("score", self.score, "final", "")]
        for each in self.verdicts:
            missing = "failed" if each.failed else "not applicable"
            lines.append(self._line(each.name, each.value, each.name, each.reason, missing))
        if self.not_run:
            lines.append(f"  not run, because the answer or the form is wrong: {', '.join(self.not_run)}")
        return "\n".join(lines)

    def _line(self, name: str, value: float | None, floor: str, reason: str, missing: str = "none") -> str:
        shown = missing if value is None else f"{value:.3g}"
        least = f" (floor {self.floors[floor]:g})" if floor in self.floors else ""
        return f"  {name} {shown}{least}{f': {reason}' if reason else ''}"


_SECTIONS = ("endpoints", "roles", "plugins", "verify")
"""Lists the sections of a config that :func:`verify` uses."""


@settings
class _VerifySections(RunSettings):
    """Holds the values of those sections of a config that :func:`verify` uses (:data:`_SECTIONS`)."""

    verify: VerifySettings = field(default_factory=VerifySettings)


def verify(
    question: str,
    response: str,
    media: Sequence[str | Path],
    answer: str,
    *,
    answer_type: str | None = None,
    choices: Sequence[str] | None = None,
    entities: Sequence[str] | None = None,
    config: str | Path | Mapping[str, Any] | None = None,
    endpoints: Mapping[str, EndpointSettings] | None = None,
    roles: Mapping[str, str] | None = None,
    gate: GateSettings | None = None,
    scorers: Sequence[Scorer] | None = None,
    columns: Mapping[Column[Any], Any] | None = None,
    cache: str | None = None,
) -> VerifiedTrace:
    """Check a model's response against the gold answer and the question's images and clips, and return the verdicts and
    the decision.

    Args:
        question: The text of the question.
        response: A model's response. The coordinates in its tags are pixels of the upright original image.
        media: The files of the question's images and clips, in order.
        answer: The gold answer, which is known to be right.
        answer_type: The name of the answer's type (:mod:`groundtrace.grading.answers.registry`), e.g. ``numeric``. The
            type decides how answers are written and graded. None means that the type is found from the answer and the
            choices.
        choices: The choices of a multiple-choice question; None for other questions.
        entities: The visible things that the question names, e.g. ``["red car"]``; () if it names none. None means that
            the things are unknown. The text of a counting question is then searched for the things to count. If the
            things are unknown and the question asks for no count, a response without points and boxes is unscored.
        config: The config of a run, as a file or as a mapping. Its sections ``endpoints``, ``roles``, ``plugins`` and
            ``verify`` are used, as in a run; other sections are ignored.
        endpoints: The endpoints (model servers) by name; not allowed together with ``config``. By default, without
            ``config``, the embedded engine is used. It is built on OpenCV and needs no server.
        roles: The name of the endpoint of each role, such as ``judge``; not allowed together with ``config``. By
            default, without ``config`` and ``endpoints``, the embedded engine has all roles.
        gate: The weights of the scores and the threshold in Eq. 9 of the paper Argos. They replace ``verify.gate`` of
            the config. If ``gate`` is None, the values of the config are used. A value that the config lacks has its
            default. Without a config, all values have their defaults.
        scorers: The scorers that may run. A scorer is code that checks one property of a response, and makes one
            verdict. By default, these are the scorers that the pipelines use. The scorers in ``verify.scorers`` of the
            config are added.
        columns: The values of columns that stages of a run add, for scorers that read them with
            ``case.context.added(COLUMN)``: ``{COLUMN: value}``, where ``COLUMN`` is the
            :class:`groundtrace.schemas.columns.Column`. Columns that are left out have no value.
        cache: A folder for the replies of models. None means that they are kept only during this call.

    Returns:
        The response with its tags in one standard form, its verdicts, its score (None if it is unscored), and
        whether a run would keep it. ``print`` shows the decision and the verdicts as text.

    Raises:
        UserError: An argument has a wrong type, a medium or the config cannot be read, a value in the config is
            invalid, the config has none of the sections above, the answer type is unknown, the answer is empty, a
            column cannot hold its value, ``cache`` is not a folder, or a role does not name an endpoint. Also raised if
            ``config`` is given together with ``endpoints`` or ``roles``.
    """
    check_arguments("verify", verify, locals())
    if config is not None and (endpoints is not None or roles is not None):
        raise UserError(
            "verify() cannot use config together with endpoints or roles: pass only config, or leave config out"
        )
    chosen = VerifySettings()
    if config is None:
        endpoints, roles = endpoints or embedded_endpoints(), roles or embedded_roles()
    else:
        endpoints, roles, chosen = _configured(config)
    chosen = chosen if gate is None else replace(chosen, gate=gate)
    used = configured(TRACE_SCORERS if scorers is None else tuple(scorers), chosen.scorers, "verify.scorers")
    try:
        check_access(endpoints, roles)
        check_scorers(chosen, used)
    except ValueError as error:
        raise UserError(str(error)) from error
    shown_choices = None if choices is None else tuple(choices)
    kind = evident_type(answer, shown_choices).name if answer_type is None else answer_type
    if kind not in ANSWER_TYPES:
        raise UserError(f"verify() has the unknown answer_type {kind!r}: use one of {', '.join(ANSWER_TYPES)}")
    if not answer.strip():
        raise UserError("the argument answer of verify() is empty: pass the gold answer")
    context = _context(columns or {})
    if cache is not None and Path(cache).exists() and not Path(cache).is_dir():
        raise UserError(f"verify() cannot keep replies in {cache}, because it is not a folder: pass a folder as cache")
    with tempfile.TemporaryDirectory(prefix="groundtrace-") as folder:
        store = MediaStore(folder, folder)
        refs = tuple(_medium(Path(path), store) for path in media)
        asked = Question("response", "", "", refs, question, answer, kind, shown_choices)
        models = _models(endpoints, roles, cache or folder, folder)
        trace = read_trace(0, response, refs)
        masks = ObjectMasks(asked, Session(runtime().models(models)), served_by(models, chosen.synthetic_sources, ()))
        named = None if entities is None else tuple(entities)
        case = replace(case_of(trace, masks, named, named or ()), context=context)
        work = verify_case(case, chosen.gate, used, chosen.planner)
        try:
            verified = runtime().submit(work).result()
        finally:
            runtime().close(models)
    return _decided(replace(trace, verdicts=verified.verdicts, score=verified.score), chosen, used)


def _decided(trace: Trace, chosen: VerifySettings, scorers: Sequence[Scorer]) -> VerifiedTrace:
    """Return a trace (response) together with the decision whether the stage ``verify`` of a run would keep it.

    ``trace`` has its verdicts and its score. ``chosen`` are the settings of the stage. ``scorers`` are the pieces of
    code that could run, each of which checks one property of a response.
    """
    held: dict[str, Any] = {each.name: getattr(trace, each.name) for each in fields(Trace)}
    floors, has_verdict = chosen.floors_of(scorers), {verdict.name for verdict in trace.verdicts}
    held["not_run"] = tuple(scorer.name for scorer in scorers if scorer.name not in has_verdict)
    if good_traces((trace,), chosen, scorers):
        return VerifiedTrace(**held, is_kept=True, floors=floors)
    why = why_rejected((trace,), chosen, scorers)
    return VerifiedTrace(**held, reason=why.reason, detail=why.detail, floors=floors)


def _configured(
    config: str | Path | Mapping[str, Any],
) -> tuple[Mapping[str, EndpointSettings], Mapping[str, str], VerifySettings]:
    """Return three parts of a run's config: the endpoints, the roles, and the settings of the stage ``verify``.

    The endpoints (model servers) are returned by name. The roles map a model's job, such as judge, to the name of an
    endpoint. The stage ``verify`` checks responses. Raises ConfigError, which is a UserError.
    """
    values = config if isinstance(config, Mapping) else given_values(str(config))
    used = {name: values[name] for name in _SECTIONS if name in values}
    if not used:
        raise UserError(
            f"the config of verify() has none of the sections {', '.join(_SECTIONS)}: add one of them, or call "
            "verify() without config"
        )
    found = settings_from(_VerifySections, used)
    return found.endpoints, {role: name for role, name in found.roles.items() if name}, found.verify


def _context(columns: Mapping[Column[Any], Any]) -> Context:
    """Return the context: an object from which scorers (code that checks a response) read further data.

    The context holds the values in ``columns``, by column. Raises UserError for a value that its column cannot hold.
    """
    context = Context()
    for column, value in columns.items():
        try:
            context = context.with_added(column, value)
        except ColumnError as error:
            raise UserError(f"verify() cannot use the argument columns: {error}") from error
    return context


def _models(
    endpoints: Mapping[str, EndpointSettings], roles: Mapping[str, str], cache: str, folder: str
) -> ModelsSettings:
    """Return the settings with which the models are called.

    ``endpoints`` are the model servers by name. ``roles`` maps each role, such as judge, to the name of its endpoint.
    The models' replies are kept in a file in the folder ``cache``. The media that are sent to the models are in
    ``folder``.
    """
    by_name, by_role = tuple(sorted(endpoints.items())), tuple(sorted(roles.items()))
    return ModelsSettings(by_name, by_role, str(Path(cache) / "replies.sqlite"), folder, folder)


def _medium(path: Path, store: MediaStore) -> MediaRef:
    try:
        if path.exists() and not path.is_file():
            raise UserError(f"{path} is not a file: correct this path in the argument media")
        uri = store.write_drawn(path.read_bytes(), path.suffix.lstrip(".").lower() or "bin")
    except (OSError, ValueError) as error:  # the latter for a path with a null byte
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot read {str(path)!r} ({reason}): correct this path in the argument media") from error
    checked = check_medium(uri, store, VideoSettings())
    if checked.ref is None:
        raise UserError(
            f"{path} cannot be used as a medium: {checked.detail.removeprefix(f'{uri}: ')}; pass another file in the "
            "argument media"
        )
    return checked.ref
