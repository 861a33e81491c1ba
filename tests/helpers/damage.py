"""Damaged files: small random changes of good ones, the same in every run."""

import random
from collections.abc import Iterator

_INSERTED = (b'(', b')', b'{', b"'", b'"', b',', b'-', b'9' * 20, b'[' * 300, b'\0', b'\n', b'L', b'None', b'#', b'\\')


def of_later_zip(content: bytes) -> bytes:
    """Returns a zip file whose first file needs a version of zip that does not exist yet.

    Releases of Python write different versions, so that the bytes before it are not known.
    """
    place = content.index(b'PK\x01\x02') + 6
    return content[:place] + b'\x7f' + content[place + 1 :]


def damaged(content: bytes, count: int, end: int | None = None, seed: int = 0) -> Iterator[bytes]:
    """Yields `count` contents, each with one change: a flipped bit, or bytes that are removed, added or replaced.

    Args:
      content: of a good file.
      count: how many.
      end: changes begin before this offset; None for the end of the file.
      seed: of the choice.
    """
    choice = random.Random(seed)
    for _ in range(count):
        changed = bytearray(content)
        at = choice.randrange(end or len(content))
        change = choice.randrange(5)
        if change == 0:
            changed[at] ^= 1 << choice.randrange(8)
        elif change == 1:
            del changed[at : at + choice.randint(1, 20)]
        elif change == 2:
            del changed[at:]
        elif change == 3:
            changed[at:at] = choice.choice(_INSERTED)
        else:
            changed[at : at + 4] = choice.randbytes(4)
        yield bytes(changed)
