"""Which Beam runner a run uses, with which options."""

import argparse
import difflib
from collections.abc import Sequence

from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.runners.runner import PipelineRunner, create_runner


class OptionError(ValueError):
    """A Beam option that no Beam option class knows."""


def pipeline_options(flags: Sequence[str]) -> PipelineOptions:
    """The Beam options after ``--``. Raises :class:`OptionError` for one that Beam would only log and ignore."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for options in _option_classes(PipelineOptions):
        if "_add_argparse_args" in vars(options):
            options._add_argparse_args(_Tolerant(parser))
    try:
        _, unknown = parser.parse_known_args(list(flags))
    except argparse.ArgumentError as error:
        raise OptionError(f"Beam option {error}") from error
    for flag in unknown:
        known = [name for action in parser._actions for name in action.option_strings]
        near = difflib.get_close_matches(flag.split("=")[0], known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise OptionError(f"unknown Beam option {flag!r}{hint}")
    options = PipelineOptions(list(flags), save_main_session=False)
    named = options.view_as(StandardOptions).runner
    if named:
        try:
            create_runner(named)
        except (ValueError, ImportError, AttributeError) as error:
            raise OptionError(f"--runner={named}: {str(error).splitlines()[0]}") from error
    return options


def choose_runner(flags: Sequence[str]) -> PipelineRunner | None:
    """The in-process portable runner, unless the options name one (None: Beam takes it from the options).

    Beam's own default would first try to download a runner binary.
    """
    named = any(flag == "--runner" or flag.startswith("--runner=") for flag in flags)
    return None if named else FnApiRunner()


class _Tolerant:
    """Adds arguments to a parser; Beam declares a few options twice."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parser = parser

    def add_argument(self, *names: str, **settings: object) -> None:
        known = {name for action in self._parser._actions for name in action.option_strings}
        if not known.intersection(names):
            self._parser.add_argument(*names, **settings)  # type: ignore[arg-type]

    def add_mutually_exclusive_group(self, **_: object) -> "_Tolerant":
        return self

    add_argument_group = add_mutually_exclusive_group


def _option_classes(cls: type) -> list[type]:
    found = []
    for child in cls.__subclasses__():
        found += [child, *_option_classes(child)]
    return found
