"""Short reasons for errors, for messages."""

from __future__ import annotations

import re

_GRAPH_ERROR = 'Graph execution error'
_SEVERAL = re.compile(r'\d+ root error\(s\) found\.')
_NUMBER_OF_ERROR = re.compile(r'^\(\d+\) ')


def reason_of(error: BaseException) -> str:
    """Returns the line of an error that names the cause; the error's type if it has no message.

    TensorFlow begins with where in the program the failed operation was made, and puts the cause behind the
    operation's name.

    Args:
      error: of TensorFlow, of the system, or another.
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
