import os
import subprocess

import pytest

from deeplab import names

HOSTILE = ['a\0b', 'a\nb', 'a\x1b[31mb', 'a\rb', 'a\u202eb', b'a\xffb\x1b', 'a\udce4b']


@pytest.mark.parametrize('name', HOSTILE)
def test_what_cannot_be_printed_is_escaped(name):
    shown = names.shown(name)
    assert shown.isprintable()
    assert shown.encode()
    assert shown.startswith('a') and 'b' in shown


def test_escapes_can_be_read():
    assert names.shown('a\x1b[31m\n\0') == r'a\x1b[31m\n\x00'
    assert names.shown('Straße 7.jpg') == 'Straße 7.jpg'
    assert names.shown(b'caf\xc3\xa9') == 'café'


@pytest.mark.parametrize(
    'name', ['begin' + 'x' * 5000 + 'end', 'begin' + '\x1b' * 5000 + 'end', 'begin' + 'y' * 114 + 'end']
)
def test_long_names_lose_their_middle(name):
    shown = names.shown(name)
    assert 20 < len(shown) <= names.LONGEST_SHOWN
    assert shown.startswith('begin') and shown.endswith('end') and '[...]' in shown


@pytest.mark.parametrize(
    'name', ['val/2007_000033.jpg', 'C:\\photos\\2007_000033.JPEG', '2007_000033', b'2007_000033.png']
)
def test_plain_names_are_kept(name):
    assert names.file_name(name) == ('2007_000033', False)


@pytest.mark.parametrize('name', [*HOSTILE[:5], b'a\x01b', 'a\udce4b'])
def test_file_names_are_cleaned(name):
    assert names.file_name(name) == ('a_b' if '[' not in str(name) else 'a_[31mb', True)


@pytest.mark.parametrize('name', ['x' * 248, 'x' * 5000, 'ä' * 130, 'x' * 300 + '.png'])
def test_long_file_names_are_cut_between_characters(name, tmp_path):
    cleaned, is_changed = names.file_name(name)
    assert is_changed and cleaned and name.startswith(cleaned)
    (tmp_path / f'{cleaned}_000123.png.4194304-0123.partial').write_bytes(b'')


def test_lengths_at_the_border_and_nothing_left():
    assert names.file_name('x' * 230) == ('x' * 230, False)
    assert names.file_name('x' * 231)[1]
    assert names.file_name('folder/') == ('', False)
    assert names.file_name('.png') == ('.png', False)


def test_numbers_of_things():
    assert [names.counted(number, 'image') for number in (0, 1, 1200)] == ['0 images', '1 image', '1,200 images']


@pytest.mark.parametrize(
    'text', ['plain', 'two words', "it's", 'a\nb', 'tab\t\x1b[31mred', "a\\n'\n", 'é\x85é', 'a\udcffb']
)
def test_a_shell_reads_a_quoted_word_as_it_was(text):
    quoted = names.shell_quoted(text)
    assert quoted.isprintable()
    printed = subprocess.run(['bash', '-c', f'printf %s {quoted}'], capture_output=True, check=True).stdout
    assert printed == os.fsencode(text)


def test_a_surrogate_of_a_text_that_is_no_path_is_quoted():
    assert names.shell_quoted('\ud800') == r"$'\xed\xa0\x80'"


def test_sizes_and_durations():
    sizes = {0: '0 bytes', 999: '999 bytes', 1000: '1 kB', 23_000_000: '23 MB', 4_849_152: '4.85 MB'}
    sizes |= {999_499: '999 kB', 999_600: '1 MB', 2.5e9: '2.5 GB', 7e12: '7 TB'}
    assert {size: names.byte_size(size) for size in sizes} == sizes
    assert names.byte_size(None) == '-'
    durations = {0: '0.0 s', 9.3: '9.3 s', 12.34: '12 s', 59.4: '59 s', 59.6: '1 min 0 s', 245: '4 min 5 s'}
    durations |= {3599.7: '1 h 0 min', 8640: '2 h 24 min', 360_000: '100 h 0 min'}
    assert {seconds: names.duration(seconds) for seconds in durations} == durations


def test_a_list_names_the_first_and_counts_the_others():
    assert names.listed(['a', 'b'], 2) == 'a, b'
    assert names.listed(['a', 'b', 'c', 'd'], 2) == 'a, b and 2 more'


def test_tables():
    rows = [('name', 'images', 'note'), ('a', '1,200', ''), ('longer', '7', 'new')]
    assert list(names.aligned(rows, left=(0, 2))) == [
        'name    images  note',
        'a        1,200',
        'longer       7  new',
    ]


def test_names_keep_their_capitals_in_the_middle_of_a_sentence():
    assert [names.lower_first(text) for text in ('OpenVINO on', 'JSON file', 'A file', 'Names.')] == [
        'OpenVINO on',
        'JSON file',
        'a file',
        'names.',
    ]
