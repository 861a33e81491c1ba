"""Escapes of control characters in what programs print and log: a path of the command line stays on one line."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from deeplab import names

_paths: tuple[str, ...] = ()  # of the command line, with characters that cannot be printed; the longest first


def expect(words: Sequence[str]) -> None:
    """Notes the paths of a command line, whose line breaks are then no line breaks of messages."""
    global _paths
    texts = {text for word in words for text in (word, word.partition('=')[2]) if text.strip()}
    _paths = tuple(sorted((text for text in texts if not text.isprintable()), key=len, reverse=True))


def cleaned(text: str) -> str:
    """Returns a text with control characters escaped, except for its own line breaks and tabs."""
    for path in _paths:
        text = text.replace(path, names.escaped(path))
    return names.printable(text)


class LogFilter(logging.Filter):
    """Escapes control characters in log records."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Changes the record's message; lets every record through."""
        message = record.getMessage()
        if not message.isprintable():
            record.msg, record.args = cleaned(message), None
        return True
