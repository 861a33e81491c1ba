"""Files of an earlier run are removed; all others stay."""

import os

from deeplab.files.written_files import WrittenFiles


def write(folder, *names):
    """A run that writes these files; returns the names that are there afterwards."""
    files = WrittenFiles(str(folder), 'vis')
    for name in names:
        files.begin()
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f'{name} of {len(names)}')
        files.add(str(folder / name))
    return {str(path.relative_to(folder)) for path in folder.rglob('*') if path.is_file() and path.suffix}


def test_a_smaller_run_after_a_larger_one(tmp_path, caplog):
    (tmp_path / 'mine.png').write_text('mine')
    write(tmp_path, 'a/0.png', 'a/1.png', 'b/0.png')
    assert write(tmp_path, 'a/0.png') == {'mine.png', 'a/0.png'}
    assert write(tmp_path) == {'mine.png', 'a/0.png'}  # a run that writes nothing removes nothing
    assert not [record for record in caplog.records if record.levelname == 'WARNING']


def test_a_file_that_was_put_in_the_place_of_ours_stays(tmp_path, caplog):
    write(tmp_path, '0.png', '1.png', '2.png')
    (tmp_path / '1.png').write_text('painted by hand')
    os.utime(tmp_path / '1.png', (1, 1))  # copied with its time
    os.remove(tmp_path / '2.png')
    assert write(tmp_path, '0.png') == {'0.png', '1.png'}
    assert any('1 files' in line and 'are kept' in line for line in caplog.messages)


def test_a_list_that_is_cut_off_or_forged(tmp_path):
    (tmp_path / 'out.png').write_text('mine')
    folder = tmp_path / 'vis'
    folder.mkdir()
    write(folder, '0.png', '1.png')
    stat = os.stat(tmp_path / 'out.png')
    with open(folder / '.vis_files', 'a') as file:
        file.write(f'["../out.png", {stat.st_size}, {stat.st_mtime_ns}]\nnull\n[1, 2]\n["0.pn')
    assert write(folder, '2.png') == {'2.png'}
    assert (tmp_path / 'out.png').exists()


def test_what_is_its_own(tmp_path):
    written = WrittenFiles(str(tmp_path), 'vis')
    (tmp_path / 'a.png').write_text('one')
    assert not written.is_own(str(tmp_path / 'a.png'))
    written.add(str(tmp_path / 'a.png'))
    for each in (written, WrittenFiles(str(tmp_path), 'vis')):
        assert each.is_own(str(tmp_path / 'a.png')) and not each.is_own(str(tmp_path / 'b.png'))
    (tmp_path / 'a.png').write_text('changed')
    assert not written.is_own(str(tmp_path / 'a.png'))
