"""Errors that speak to the user.

A `UserError` says in one message what was given, what is allowed and what to do. The command line shows the message
alone, without a stack trace, and ends with a status that is not 0. Anything else that escapes is a defect of ours.
"""


class UserError(ValueError):
    """Something the user can mend; the message says how."""


class OptionError(UserError):
    """A flag or option has a value that is not allowed, or disagrees with another."""


class DataError(UserError):
    """An image, a mask, a record or a folder of them is missing or wrong."""


class CheckpointError(UserError):
    """A checkpoint is missing, or does not fit the network."""


class NetworkMismatchError(CheckpointError):
    """A checkpoint is of another network."""


class NonFiniteError(UserError):
    """A loss or gradient is infinite or not a number."""


class OutOfMemoryError(UserError):
    """The machine, or what it allows this process, has too little memory."""


class MachineError(UserError):
    """A server of a training on several machines is missing, has gone, or is not what the flags say."""


class OutputError(UserError):
    """A result that cannot be written.

    Attributes:
      report: the result as a text, which the command line shows first; empty for none.
    """

    def __init__(self, message: str, report: str = '') -> None:
        super().__init__(message)
        self.report = report
