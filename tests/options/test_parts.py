"""Parts of the items of a program."""

import pytest

from deeplab.errors import DataError, OptionError
from deeplab.options.parts import Part, PartOptions, require_all


@pytest.mark.parametrize(('items', 'count'), [(1, 1), (5, 5), (17, 4), (1000, 7), (16, 16)])
def test_parts_follow_each_other_and_have_equally_many_items(items, count):
    slices = [Part(number, count).of(items) for number in range(1, count + 1)]
    assert [i for each in slices for i in range(items)[each]] == list(range(items))
    lengths = {each.stop - each.start for each in slices}
    assert min(lengths) >= 1 and max(lengths) - min(lengths) <= 1


def test_more_parts_than_items():
    with pytest.raises(DataError, match=r'Part 2/6 .*items \(5\)\. Use at most 5 parts'):
        Part(2, 6).of(5)


def test_texts():
    assert PartOptions('3/16').chosen == Part(3, 16)
    assert PartOptions().chosen is None
    assert (str(Part(3, 16)), Part(3, 16).label, Part(3, 4).label) == ('3/16', 'part-03-of-16', 'part-3-of-4')


@pytest.mark.parametrize('text', ['0/4', '5/4', '4', '', '1/0', '-1/4', '1/4/2', 'a/b', '1.0/4', '/4'])
def test_what_is_no_part(text):
    with pytest.raises(OptionError, match='pass the number of the part, from 1'):
        PartOptions(text)


def test_a_whole():
    parts = [Part(2, 3), Part(3, 3), Part(1, 3)]
    require_all(parts, 'The split')
    with pytest.raises(DataError, match='The split lacks part 3/3'):
        require_all([parts[0], parts[2]], 'The split')
    with pytest.raises(DataError, match='has part 2/3 twice'):
        require_all([*parts, Part(2, 3)], 'The split')
    with pytest.raises(DataError, match='parts of 2 and 3 parts'):
        require_all([*parts, Part(1, 2)], 'The split')
