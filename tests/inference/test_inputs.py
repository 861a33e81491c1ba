"""Which files predict finds, and how their results are named."""

import os
import pathlib

import pytest

from deeplab.inference import inputs


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder of files, in which names of results could meet."""
    monkeypatch.chdir(tmp_path)
    names = ['a.jpg', 'a.png', 'B.JPG', 'b.png', 'clip.mp4', 'notes.md', '.hidden.jpg', 'sub/a.jpg', 'sub/deep/c.webp']
    names += ['sub/.cache/d.jpg', 'c.png/e.jpg', 'c.jpg']
    for name in names:
        path = tmp_path / 'photos' / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b'')
    return tmp_path


def found(*texts, output_dir='out'):
    items, failures = inputs.find(texts, output_dir)
    return {item.path: item.name for item in items}, [failure.path for failure in failures]


def test_a_folder_gives_its_images_and_videos_and_keeps_its_structure(photos):
    items, failures = found('photos')
    assert items == {
        'photos/B.JPG': 'B.JPG',
        'photos/a.jpg': 'a.jpg',
        'photos/a.png': 'a.png',
        'photos/b.png': 'b.png',
        'photos/c.jpg': 'c_2',  # c.png is a folder of results
        'photos/clip.mp4': 'clip.mp4',
        'photos/c.png/e.jpg': 'c.png/e',
        'photos/sub/a.jpg': 'sub/a',
        'photos/sub/deep/c.webp': 'sub/deep/c',
    }
    assert not failures


def test_a_file_a_pattern_and_several_folders(photos):
    assert found('photos/sub/a.jpg')[0] == {'photos/sub/a.jpg': 'a'}
    assert set(found('photos/**/*.jpg')[0].values()) == {'a', 'c_2', 'c.png/e', 'sub/a'}
    items, _ = found('photos/sub', 'photos/c.png', 'photos/sub/a.jpg')
    assert items['photos/sub/a.jpg'] == 'sub/a' and items['photos/c.png/e.jpg'] == 'c.png/e' and len(items) == 3


def test_a_name_with_the_characters_of_a_pattern_is_a_file_first(photos):
    (photos / 'photo[1].jpg').write_bytes(b'')
    assert found('photo[1].jpg')[0] == {'photo[1].jpg': 'photo[1]'}


def test_a_list_of_paths(photos):
    lines = ['photos/a.jpg', '', str(photos / 'photos/sub/a.jpg'), 'photos/missing.jpg']
    pathlib.Path('list.txt').write_text('\n'.join(lines))
    items, failures = found('list.txt')
    assert list(items.values()) == ['a', 'sub/a'] and failures == ['photos/missing.jpg']
    lines = ['# of a builder', 'photos\\a.jpg', 'photos/sub/a', 'photos/none']
    pathlib.Path('list.txt').write_text('\r\n'.join(lines), 'utf-16')
    items, failures = found('list.txt')
    assert list(items) == ['photos/a.jpg', 'photos/sub/a.jpg'] and failures == ['photos/none']
    pathlib.Path('bytes.txt').write_bytes(b'\xff\xfe\x00')
    assert found('bytes.txt') == ({}, ['bytes.txt'])


def test_what_does_not_exist_is_a_failure(photos):
    assert found('nowhere', 'photos/*.bmp') == ({}, ['nowhere', 'photos/*.bmp'])
    assert found('photos/**.bmp') == ({}, ['photos/**.bmp'])  # no pattern, or one without files: Python decides


def test_results_of_an_earlier_run_are_not_inputs(photos):
    out = photos / 'photos' / 'out'
    (out / 'mask').mkdir(parents=True)
    (out / 'mask' / 'a.png').write_bytes(b'')
    for text in ('photos', 'photos/**/*.png'):
        assert not any('out' in path for path in found(text, output_dir='photos/out')[0])


def test_the_folder_of_the_results_is_not_predicted(photos):
    items, (failure,) = inputs.find([str(photos)], f'{photos}/')
    assert not items and failure.reason.endswith('which is not predicted; set another output_dir')


def test_names_are_printable_stay_in_the_folder_and_differ(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [
        'a\nb.jpg',
        'a\tb.jpg',
        'x\x1b[31m.jpg',
        '..jpg',
        '...jpg',
        'e\u0301.png',
        '\u00e9.jpg',
        f'{"n" * 240}.jpg',
    ]
    names += [os.fsdecode(b'\xff.jpg'), 'back\\slash.jpg', 'A.jpg', 'a.JPG', 'a.jpg.png', 'a_jpg.png', '-v.jpg']
    for name in names:
        pathlib.Path(name).write_bytes(b'')
    items, _ = inputs.find(names, 'out')
    results = [item.name for item in items]
    assert len(items) == len(names)
    assert len({result.casefold() for result in results}) == len(names)
    assert len({item.relative for item in items}) == len(names)
    for result in results:
        assert result.isprintable() and '\\' not in result and len(result.encode()) < 230
        assert (tmp_path / 'mask' / f'{result}.png').resolve().parent == tmp_path / 'mask'


def test_a_file_named_twice_is_predicted_once(photos):
    items, _ = inputs.find(['photos/a.jpg', 'photos', './photos/a.jpg'], 'out')
    assert sum(os.path.basename(item.path) == 'a.jpg' for item in items) == 2  # that of sub is another
