import pathlib

from deeplab.datasets import folders


def test_extensions_in_any_case_and_the_given_one_first(tmp_path):
    for name in ('a.jpg', 'a.JPG', 'b.JPG', 'c.Jpg', 'd.jpeg', 'e.jpg.txt', '._a.jpg'):  # macOS makes the last one
        (tmp_path / name).touch()
    assert [path.name for path in folders.of_extension(tmp_path.iterdir(), 'jpg')] == ['a.jpg', 'b.JPG', 'c.Jpg']
    assert [path.name for path in folders.of_extension(tmp_path.iterdir(), 'jpg.txt')] == ['e.jpg.txt']


def test_a_search_takes_the_exact_file_first(tmp_path):
    for name in ('a.png', 'a.PNG', 'b.PNG', 'C.png'):
        (tmp_path / name).touch()
    search = folders.Search()
    found = [search.find(tmp_path / f'{stem}.png').name for stem in ('a', 'b', 'c', 'none')]
    assert found == ['a.png', 'b.PNG', 'c.png', 'none.png']
    assert search.find(pathlib.Path(tmp_path, 'no', 'a.png')) == tmp_path / 'no' / 'a.png'


def test_many_kinds_and_folders_are_counted(tmp_path):
    for number in range(8):
        (tmp_path / f'a.{number}').touch()
        (tmp_path / f'folder{number}').mkdir()
    (tmp_path / 'b.0').touch()
    text = folders.summary(tmp_path)
    assert text.startswith('It contains 2 .0, 1 .1') and '3 others (9 files)' in text
    assert text.endswith('folder0, folder1, folder2 and 5 more.')
    assert 'cannot be read' in folders.summary(tmp_path / 'no')


def test_a_walk_visits_each_folder_once_and_nothing_hidden(tmp_path):
    for path in ('b.txt', 'a.txt', '.hidden', 'inner/c.txt', '.git/d', '__MACOSX/e', 'inner/other/f'):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / 'inner' / 'loop').symlink_to(tmp_path)
    root, inner = str(tmp_path), str(tmp_path / 'inner')
    visited = {str((tmp_path / 'inner' / 'other').resolve())}
    assert list(folders.walk(root, visited)) == [(root, ['a.txt', 'b.txt']), (inner, ['c.txt'])]
    assert list(folders.walk(root, visited)) == []
