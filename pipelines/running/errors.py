"""The error of a run that the command line tells apart from all others; this module imports nothing that is slow."""


class ConservationError(Exception):
    """Records were lost or made up; the outputs were not put in place."""
