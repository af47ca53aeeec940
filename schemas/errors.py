"""The base of every error that a user can mend."""


class UserError(Exception):
    """A mistake in a command, a config, an input, a file or a folder that the user named.

    The message is one line that says what is wrong, where, and what to do. The commands print it without a traceback
    and exit with 2. A fault of a server or a broken machine is not a UserError, nor is a bad reply or a bad record.
    """
