"""Looking into a finished run."""


class InspectError(Exception):
    """The folder or the query cannot be used."""


def run_inspect(run: str, sql: str | None) -> None:
    """Print the run's figures."""
    raise InspectError(f"{run}: {sql}")
