"""Checks that optional packages are installed. The error for a missing package names the command that installs it."""

import importlib.util

from groundtrace.schemas.errors import UserError


class MissingExtra(UserError, ModuleNotFoundError):
    """Raised if a feature needs packages that are not installed.

    The message names the extra (the group of optional packages) with these packages.
    """


def require_extra(extra: str, what: str, *modules: str) -> None:
    """Check that the modules that a feature needs are installed. Raises :class:`MissingExtra` if one is not.

    ``extra`` is the extra (the group of optional packages) that installs the modules. The message tells the user to
    install it, as in ``pip install 'groundtrace[video]'``. ``what`` names the feature in the message, such as "reading
    clips". ``modules`` are the names of the modules. They are not imported, since some imports take seconds.
    """
    for module in modules:
        if not _is_installed(module):
            raise MissingExtra(
                f"{what} needs the extra {extra}: pip install 'groundtrace[{extra}]' (the module {module} is not "
                "installed)",
                name=module,
            )


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False
