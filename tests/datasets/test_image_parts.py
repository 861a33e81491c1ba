"""Segments of JPEG files and chunks of PNG files."""

import pytest

from deeplab.datasets import image_parts

COMMENT, APPLICATION = b'\xff\xfe', b'\xff\xe1'


def segment(kind, data):
    return kind + (len(data) + 2).to_bytes(2, 'big') + data


def found(content, *kinds):
    """The kind and the data of each part."""
    return [(kind, content[start:end]) for kind, start, end in image_parts.parts(content, *kinds)]


@pytest.mark.parametrize('fill', range(5))
def test_a_marker_may_follow_any_number_of_filling_bytes(fill):
    filling = b'\xff' * fill
    content = image_parts.JPEG_MAGIC + segment(APPLICATION, b'first') + filling + segment(COMMENT, b'second')
    content += filling + segment(image_parts.START_OF_SCAN, b'scan') + segment(COMMENT, b'in the pixels')
    assert found(content, COMMENT) == [(COMMENT, b'second')]
    assert found(content, APPLICATION, image_parts.START_OF_SCAN) == [
        (APPLICATION, b'first'),
        (image_parts.START_OF_SCAN, b'scan'),
    ]


@pytest.mark.parametrize('end', [image_parts.END_OF_IMAGE + b'\0\4', b'\0\0\0\4', b'\xff\xe1\0\1'])
def test_segments_end_with_the_image_and_at_damage(end):
    content = image_parts.JPEG_MAGIC + segment(COMMENT, b'first') + end + segment(COMMENT, b'second')
    assert found(content, COMMENT) == [(COMMENT, b'first')]


def test_the_last_segment_of_a_truncated_file_is_as_long_as_the_file():
    content = image_parts.JPEG_MAGIC + segment(COMMENT, b'comment')
    assert found(content[:-3], COMMENT) == [(COMMENT, b'comm')]
    assert found(content[:5], COMMENT) == []


def test_chunks_of_a_png_are_complete():
    def chunk(kind, data):
        return len(data).to_bytes(4, 'big') + kind + data + b'sums'

    content = image_parts.PNG_MAGIC + chunk(b'IHDR', b'header') + chunk(b'eXIf', b'turned') + chunk(b'IEND', b'')
    assert found(content, b'eXIf', b'IEND') == [(b'eXIf', b'turned'), (b'IEND', b'')]
    assert found(content[:-1], b'IEND') == []


def test_other_files_have_no_parts():
    assert found(b'GIF89a' + segment(COMMENT, b'comment'), COMMENT) == []
