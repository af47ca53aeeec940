"""The errors of a run that the command line tells apart from all others; this module imports nothing that is slow."""


class ConservationError(Exception):
    """Records were lost or made up; the outputs were not put in place."""


class RunPaused(Exception):
    """The run ended before its end, and the same command goes on; the outputs were not put in place."""


class JobIncomplete(Exception):
    """A runner says that a job is done which has left no whole outcome; the outputs were not put in place."""
