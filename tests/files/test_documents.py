import json

import pytest

from deeplab.files import documents

CONTENT = {'a': [1, {'b': 'ä'}]}
DEEP = 100_000  # beyond any limit of recursion


@pytest.mark.parametrize('mark', ['', '\ufeff'])
@pytest.mark.parametrize('name', ['a.json', 'a.yaml', 'a.yml', 'a.txt'])
def test_a_byte_order_mark_is_skipped(tmp_path, name, mark):
    path = tmp_path / name
    path.write_text(mark + json.dumps(CONTENT), 'utf-8')
    assert documents.load(path) == documents.load(str(path)) == CONTENT
    path.write_text(json.dumps(CONTENT, ensure_ascii=False), 'utf-16')  # as some Windows programs do
    assert documents.load(path) == CONTENT


@pytest.mark.parametrize('name', ['a.json', 'a.yaml'])
def test_deep_nesting_is_one_line(tmp_path, name):
    for text in ('[' * DEEP, '[' * DEEP + ']' * DEEP, '[' * 300 + ']' * 300, '{"a":' * 300 + '1' + '}' * 300):
        (tmp_path / name).write_text(text)
        with pytest.raises(documents.DocumentError, match='nested more than 100 levels deep'):
            documents.load(tmp_path / name)


def test_a_hundred_levels_are_fine():
    assert documents.parse_json('[' * 100 + ']' * 100)


@pytest.mark.parametrize('name', ['a: b', 'é😀', '\udce4', '\U000e0001', '\u2028\x7f\0\x85\ufeff'])
def test_yaml_that_is_written_is_read(name):
    content = {'name': name, 'splits': {name: {'images': 3}}, 'sizes': [1, 0.5, None, True]}
    assert documents.parse_yaml(documents.yaml_text(content)) == content


def test_each_reading_has_its_own_content():
    documents.parse_yaml('a: [1]')['a'].append(2)
    assert documents.parse_yaml('a: [1]') == {'a': [1]}


def test_a_yaml_file_that_contains_itself_or_grows_without_end():
    with pytest.raises(documents.DocumentError, match='nested'):
        documents.parse_yaml('&a [*a]')
    lines = ['a0: &a0 [1]', *(f'a{i}: &a{i} [{", ".join([f"*a{i - 1}"] * 9)}]' for i in range(1, 30))]
    assert set(documents.parse_yaml('\n'.join(lines))) == {f'a{i}' for i in range(30)}


@pytest.mark.parametrize(
    ('name', 'content', 'message'),
    [
        ('a.json', b'{"a": }', '^is not JSON: line 1, column 7: '),
        ('a.json', b'1' * 5000, '^is not usable: .*digits'),
        ('a.json', b'{\xff', '^cannot be read: it is not text in UTF-8$'),
        ('a.yaml', b'a: 1\nb: ]', '^is not YAML: [^\n]*line 2, column 4[^\n]*$'),
        ('a.yaml', b'a: 2020-13-45', '^is not usable: .*month'),
        ('a.yaml', b'!!python/object:os.system {}', '^is not YAML: '),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(documents.DocumentError, match=message):
        documents.load(tmp_path / name)


def test_pairs_that_occur_twice_can_be_kept():
    assert documents.parse_json('{"a": 1, "a": 2}', keeps_pairs=True) == [('a', 1), ('a', 2)]


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileNotFoundError):
        documents.load(tmp_path / 'no.json')
    with pytest.raises(documents.DocumentError, match='^cannot be read: Is a directory$'):
        documents.load(tmp_path)


def test_incomplete_lines_are_skipped(tmp_path):
    path = tmp_path / 'lines.jsonl'
    path.write_bytes(b'{"a": 1}\n[2]\n{"b": \n\n\xff\n{"c": 3}')
    assert documents.load_lines(path) == [{'a': 1}, [2]]
    with pytest.raises(FileNotFoundError):
        documents.load_lines(tmp_path / 'none.jsonl')


def test_entries_of_a_text(tmp_path):
    text = '# a comment\r\n a b \r\n\r\n#c\nd # e\n'
    for encoding in ('utf-8', 'utf-8-sig', 'utf-16'):
        (tmp_path / 'a.txt').write_bytes(text.encode(encoding))
        assert documents.entries_of(documents.load_text(tmp_path / 'a.txt')) == ['a b', 'd # e']
    (tmp_path / 'a.txt').write_bytes(b'\xff')
    for path, part in ((tmp_path / 'a.txt', 'not text in UTF-8'), (tmp_path / 'b.txt', 'No such file')):
        with pytest.raises(documents.DocumentError, match=f'^cannot be read: .*{part}'):
            documents.load_text(path)
