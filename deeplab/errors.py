"""Exceptions for errors that a user can fix.

The message of a `UserError` states what was given, what is allowed and what to do. The command line prints only the
message, without a stack trace, and exits with a nonzero status. Any other exception that escapes is a bug.
"""

from __future__ import annotations

import re

_GRAPH_ERROR = 'Graph execution error'
_SEVERAL = re.compile(r'\d+ root error\(s\) found\.')
_NUMBER_OF_ERROR = re.compile(r'^\(\d+\) ')


class UserError(ValueError):
    """An error that the user can fix; the message states how."""


class OptionError(UserError):
    """An option has a value that is not allowed or contradicts another option."""


class DataError(UserError):
    """An image, a mask, a record or a folder of them is missing or wrong."""


class UnreadableFileError(DataError):
    """The system cannot read a file of a data set, which the message names.

    It may be able to later: this says nothing about the content.
    """


class StorageError(UserError):
    """A storage that is not on a local disk does not answer, or cannot be read. It says nothing about the data."""


class CheckpointError(UserError):
    """A checkpoint is missing, or does not match the network."""


class NetworkMismatchError(CheckpointError):
    """A checkpoint belongs to another network.

    Attributes:
      summary: the cause and the fix, with which the message begins.
      details: the variables that differ, in one line or several; empty for none.
    """

    def __init__(self, summary: str, details: str = '') -> None:
        break_ = '\n' if '\n' in details else ' '
        super().__init__(f'{summary.rstrip(".")}.{break_}{details}' if details else summary)
        self.summary = summary
        self.details = details


class NonFiniteError(UserError):
    """A loss or gradient is infinite or not a number."""


class OutOfMemoryError(UserError):
    """The machine, or the memory limit of this process, has too little memory."""


class MachineError(UserError):
    """A server of a distributed training is missing, has stopped, or does not match the options."""


class LostWorkerError(MachineError):
    """Another synchronous worker is lost: the same command, run again on all machines, continues the training."""


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


def reason_of(error: BaseException) -> str:
    """Returns the line of an error that names the cause; the error's type if it has no message.

    TensorFlow begins with where in the program the failed operation was made, and puts the cause behind the
    operation's name.

    Args:
      error: error of TensorFlow, of the system, or another.
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = [line.strip() for line in str(getattr(error, 'message', None) or error).splitlines()]
    lines = [line for line in lines if line.strip('=')]  # rows of = separate errors of several servers
    if not lines:
        return type(error).__name__
    if lines[0].startswith(_GRAPH_ERROR):
        nodes = [number for number, line in enumerate(lines) if line.startswith("Node: '")]
        lines = (lines[nodes[-1] + 1 :] if nodes else lines[1:]) or lines
        if _SEVERAL.match(lines[0]):
            lines = lines[1:] or lines
    return _NUMBER_OF_ERROR.sub('', lines[0])
