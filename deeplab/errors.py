"""Exceptions for errors that a user can fix.

The message of a `UserError` states what was given, what is allowed and what to do. The command line prints only the
message, without a stack trace, and exits with a nonzero status. Any other exception that escapes is a bug.
"""


class UserError(ValueError):
    """An error that the user can fix; the message states how."""


class OptionError(UserError):
    """An option has a value that is not allowed or contradicts another option."""


class DataError(UserError):
    """An image, a mask, a record or a folder of them is missing or wrong."""


class CheckpointError(UserError):
    """A checkpoint is missing, or does not match the network."""


class NetworkMismatchError(CheckpointError):
    """A checkpoint belongs to another network."""


class NonFiniteError(UserError):
    """A loss or gradient is infinite or not a number."""


class OutOfMemoryError(UserError):
    """The machine, or the memory limit of this process, has too little memory."""


class MachineError(UserError):
    """A server of a distributed training is missing, has stopped, or does not match the options."""


class OutputError(UserError):
    """A result cannot be written.

    Attributes:
      report: the result as text, which the command line prints first; empty for none.
    """

    def __init__(self, message: str, report: str = '') -> None:
        super().__init__(message)
        self.report = report


class DownloadError(UserError):
    """A file cannot be downloaded, or is not what was expected."""
