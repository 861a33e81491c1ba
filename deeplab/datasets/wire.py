"""Wire format of `tf.train.Example`, written and read without TensorFlow.

Builders and checks handle many records and need nothing of TensorFlow but this one small message; without it they
start at once, and keys are written in sorted order, so the same values always give the same bytes.

Source: the protocol buffer wire format (protobuf.dev, Encoding) and tensorflow/core/example/{example,feature}.proto:
  Example { Features features = 1; }  Features { map<string, Feature> feature = 1; }
  Feature { BytesList = 1 | FloatList = 2 | Int64List = 3 }, each list with `repeated value = 1`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

Value = bytes | int | Sequence[bytes] | np.ndarray

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 1, 2, 3


def write_features(features: Mapping[str, Value]) -> bytes:
    """Serializes a `tf.train.Example`.

    Args:
      features: bytes, several of them, an integer, or an array of floats or of integers, by key.

    Returns:
      The serialized message.
    """
    entries = []
    for key in sorted(features):
        value = features[key]
        if isinstance(value, bytes):
            feature = message(_BYTES_LIST, message(1, value))
        elif isinstance(value, np.ndarray):
            if value.dtype.kind == 'f':
                feature = message(_FLOAT_LIST, message(1, value.astype('<f4').tobytes()))
            else:
                feature = message(_INT64_LIST, message(1, b''.join(map(_varint, value.tolist()))))
        elif isinstance(value, int):
            feature = message(_INT64_LIST, message(1, _varint(value)))
        else:
            feature = message(_BYTES_LIST, b''.join(message(1, text) for text in value))
        entries.append(message(1, message(1, key.encode()) + message(2, feature)))
    return message(1, b''.join(entries))


def read_features(serialized: bytes) -> dict[str, Value]:
    """Reads the features of a `tf.train.Example`.

    Args:
      serialized: the serialized message.

    Returns:
      Values by key: bytes (a list if there are several), an integer ([n] int64 if there are several), or floats
      ([n] float32). Features without a value are left out.

    Raises:
      ValueError: `serialized` is not such a message.
    """
    features: dict[str, Value] = {}
    try:
        for entry in _messages(memoryview(serialized), 1):
            for fields in _messages(entry, 1):
                key = b''.join(bytes(part) for part in _messages(fields, 1)).decode()
                for feature in _messages(fields, 2):
                    value = _value(feature)
                    if value is not None:
                        features[key] = value
    except (IndexError, ValueError) as error:
        raise ValueError(f'not a tf.train.Example ({error})') from None
    return features


def _value(feature: memoryview) -> Value | None:
    """Returns the value of a feature, as `read_features`; None if it has none."""
    for kind, content in _fields(feature):
        values = [value for number, value in _fields(content) if number == 1] if isinstance(content, memoryview) else []
        parts = [bytes(value) for value in values if isinstance(value, memoryview)]
        if kind == _BYTES_LIST and parts:
            return parts[0] if len(parts) == 1 else parts
        if kind == _FLOAT_LIST and parts:
            return np.frombuffer(b''.join(parts), '<f4')
        if kind == _INT64_LIST and values:
            numbers = [_signed(n) for value in values for n in ([value] if isinstance(value, int) else _varints(value))]
            return numbers[0] if len(numbers) == 1 else np.array(numbers, np.int64)
    return None


def message(number: int, content: bytes) -> bytes:
    """Returns a field that carries its length."""
    return _varint(number << 3 | _LENGTH) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Encodes a varint: seven bits per byte, the lowest first; the high bit marks that more bytes follow."""
    value %= 1 << 64  # negative numbers are written as 64 bits
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _read_varint(content: memoryview, position: int) -> tuple[int, int]:
    """Returns a varint and the position after it."""
    value = shift = 0
    while True:
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise IndexError('a number has more than 64 bits')


def _varints(content: memoryview) -> Iterator[int]:
    """Yields the varints of a packed list."""
    position = 0
    while position < len(content):
        value, position = _read_varint(content, position)
        yield value


def _signed(number: int) -> int:
    """Returns the int64 of which a varint has the bits; bits beyond 64 are dropped, as the format demands."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _messages(content: memoryview, wanted: int) -> Iterator[memoryview]:
    """Returns the length-delimited fields of one number."""
    for number, value in _fields(content):
        if number == wanted and isinstance(value, memoryview):
            yield value


def _fields(content: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    """Yields number and value of each field."""
    position = 0
    while position < len(content):
        tag, position = _read_varint(content, position)
        kind = tag & 7
        if kind == _VARINT:
            value, position = _read_varint(content, position)
            yield tag >> 3, value
            continue
        if kind == _LENGTH:
            length, position = _read_varint(content, position)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise IndexError(f'a field has the unknown wire type {kind}')
        end = position + length
        if end > len(content):
            raise IndexError(f'a field of {length} bytes extends beyond the end')
        yield tag >> 3, content[position:end]
        position = end
