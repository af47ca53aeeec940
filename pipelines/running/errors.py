"""The errors of a run that the command line handles separately; this module imports no slow module."""


class ConservationError(Exception):
    """Records were lost or invented; the outputs were not put in place."""


class RunPaused(Exception):
    """The run stopped before its end, and the same command resumes it; the outputs were not put in place."""


class JobIncomplete(Exception):
    """The runner reports a job as done, but its files are incomplete; the outputs were not put in place."""
